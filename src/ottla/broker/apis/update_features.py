"""UpdateFeatures v0-v2: raises or lowers levels of features, all that are named or none. Decided by the controller."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.cluster.features import KRAFT_VERSION
from ottla.wire.acls import AclOperation
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


async def update_features(request: UpdateFeaturesRequest, metadata: Metadata, caller: Caller) -> UpdateFeaturesResponse:
    quorum = metadata.quorum
    wanted = {update.feature: update.max_version_level for update in request.feature_updates}
    voters = None
    if wanted.get(KRAFT_VERSION) == 1 and quorum.voters.kraft_version == 0:
        voters = quorum.voters_to_be_dynamic()
    decision = metadata.controller.update_features(request, kraft_version=quorum.voters.kraft_version)
    response = await metadata.commit(decision)
    if voters is not None and response.error_code == ErrorCode.NONE and not request.validate_only:
        await quorum.make_voters_dynamic(voters)
    return response


api = Api(key=57, handler=update_features, needs=cluster_wide(AclOperation.ALTER), is_forwarded=True)
