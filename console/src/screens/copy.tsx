import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, href } from "../cluster";
import { ApiError, part, post } from "../net/api";
import type { Job } from "../net/types";
import { type Form, searchOf } from "../pure/search_form";
import { typedNumber } from "../pure/typed_number";
import { go } from "../router";
import { texts } from "../texts";
import { Dialog } from "../ui/dialog";
import { Button, FaultBox, Field } from "../ui/parts";

const t = texts.copy;

/** Copies what the search in force finds, all of it, into another topic. */
export function CopyDialog({
  topic,
  form,
  partitionCount,
  onClose,
}: {
  topic: string;
  form: Form;
  partitionCount: number;
  onClose: () => void;
}): JSX.Element {
  const [to, setTo] = useState("");
  const [limit, setLimit] = useState("");
  const [keeps, setKeeps] = useState(true);
  const [fault, setFault] = useState<ApiError | null>(null);
  const run = async (): Promise<void> => {
    try {
      const {
        cursor: _cursor,
        order: _order,
        limit: _limit,
        ...search
      } = searchOf(form, topic, partitionCount, Date.now());
      await post<{ job: Job }>(`${api()}/topics/${part(topic)}/copy`, {
        ...search,
        to,
        limit: typedNumber(limit),
        keep_partitions: keeps,
      });
      onClose();
      go(href(["jobs"]));
    } catch (error) {
      setFault(error instanceof ApiError ? error : new ApiError("INVALID", String(error), null, 0));
    }
  };
  return (
    <Dialog
      title={t.title(topic)}
      onClose={onClose}
      onSubmit={() => void run()}
      foot={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="main-action" type="submit" disabled={!to}>
            {t.start}
          </Button>
        </>
      }
    >
      {fault && <FaultBox fault={fault} />}
      <p>{t.lead}</p>
      <Field name={t.to}>
        <input value={to} onInput={(event) => setTo(event.currentTarget.value)} />
      </Field>
      <Field name={t.limit} note={t.limitNote}>
        <input inputMode="numeric" value={limit} onInput={(event) => setLimit(event.currentTarget.value)} />
      </Field>
      <label class="tick">
        <input type="checkbox" checked={keeps} onChange={(event) => setKeeps(event.currentTarget.checked)} />
        {t.keeps}
      </label>
    </Dialog>
  );
}
