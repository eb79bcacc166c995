import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, href } from "../cluster";
import { type ApiError, asFault, post } from "../net/api";
import { forget, useResource } from "../net/resource";
import { typedNumber } from "../pure/typed_number";
import { go } from "../router";
import { texts } from "../texts";
import { Dialog } from "../ui/dialog";
import { Button, FaultBox, Field } from "../ui/parts";
import { done } from "../ui/toasts";

const t = texts.createTopic;

interface Known {
  settings: { name: string; type: string; default: string | null; documentation: string | null }[];
}

export function CreateTopic({ onClose }: { onClose: () => void }): JSX.Element {
  const known = useResource<Known>(`${api()}/topic-settings`);
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState("");
  const [replicas, setReplicas] = useState("");
  const [settings, setSettings] = useState<{ name: string; value: string }[]>([]);
  const [fault, setFault] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const create = async (): Promise<void> => {
    setBusy(true);
    setFault(null);
    try {
      await post(`${api()}/topics`, {
        name,
        partition_count: typedNumber(partitions),
        replication_factor: typedNumber(replicas),
        settings: Object.fromEntries(settings.filter((one) => one.name).map((one) => [one.name, one.value])),
        validate_only: false,
      });
      done(t.created(name));
      forget(`${api()}/topics`);
      onClose();
      go(href(["topics", name]));
    } catch (error) {
      setFault(asFault(error));
      setBusy(false);
    }
  };
  const change = (index: number, part: Partial<{ name: string; value: string }>): void =>
    setSettings(settings.map((one, at) => (at === index ? { ...one, ...part } : one)));
  return (
    <Dialog
      title={t.title}
      onClose={onClose}
      onSubmit={() => void create()}
      foot={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="main-action" type="submit" disabled={!name || isBusy}>
            {isBusy ? texts.working : t.create}
          </Button>
        </>
      }
    >
      {fault && <FaultBox fault={fault} />}
      <Field name={t.name} note={t.nameNote}>
        <input
          value={name}
          spellcheck={false}
          autocomplete="off"
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </Field>
      <div class="form-row">
        <Field name={t.partitions}>
          <input
            inputMode="numeric"
            value={partitions}
            placeholder={t.byDefault}
            onInput={(event) => setPartitions(event.currentTarget.value)}
          />
        </Field>
        <Field name={t.replicas}>
          <input
            inputMode="numeric"
            value={replicas}
            placeholder={t.byDefault}
            onInput={(event) => setReplicas(event.currentTarget.value)}
          />
        </Field>
      </div>
      <datalist id="topic-settings">
        {known.data?.settings.map((one) => (
          <option key={one.name} value={one.name} />
        ))}
      </datalist>
      {settings.map((one, index) => {
        const setting = known.data?.settings.find((other) => other.name === one.name);
        return (
          <div class="form-row" key={index}>
            <Field name={t.setting} size="wide" note={setting?.documentation}>
              <input
                list="topic-settings"
                value={one.name}
                onInput={(event) => change(index, { name: event.currentTarget.value })}
              />
            </Field>
            <Field name={t.value}>
              <input
                value={one.value}
                placeholder={setting?.default ?? ""}
                onInput={(event) => change(index, { value: event.currentTarget.value })}
              />
            </Field>
            <Button
              kind="plain"
              icon="close"
              label={t.drop}
              onClick={() => setSettings(settings.filter((_, at) => at !== index))}
            />
          </div>
        );
      })}
      <div>
        <Button kind="small" icon="plus" onClick={() => setSettings([...settings, { name: "", value: "" }])}>
          {t.addSetting}
        </Button>
      </div>
    </Dialog>
  );
}
