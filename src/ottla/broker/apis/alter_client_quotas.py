"""AlterClientQuotas v0-v1: the controller decides, every broker enforces."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, Need
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)


async def alter_client_quotas(
    request: AlterClientQuotasRequest, metadata: Metadata, caller: Caller
) -> AlterClientQuotasResponse:
    if not caller.is_allowed_on_cluster(AclOperation.ALTER_CONFIGS):
        return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await metadata.commit(metadata.controller.alter_client_quotas(request))


def _refused(request: AlterClientQuotasRequest, code: ErrorCode) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(
                error_code=code,
                error_message=code.text,
                entity=[
                    AlterClientQuotasResponseEntityData(entity_type=one.entity_type, entity_name=one.entity_name)
                    for one in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


api = Api(
    key=49,
    handler=alter_client_quotas,
    needs=(Need(AclOperation.ALTER_CONFIGS, AclResource.CLUSTER),),
    is_forwarded=True,
)
