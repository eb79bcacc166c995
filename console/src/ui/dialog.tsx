import { type ComponentChildren, Fragment, type JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, asFault, post, preview } from "../net/api";
import type { Preview } from "../net/types";
import { previewText } from "../pure/format";
import { visibleText } from "../pure/visible_text";
import { texts } from "../texts";
import { Bones, Button, FaultBox, Field } from "./parts";

export function Dialog({
  title,
  onClose,
  children,
  foot,
  wide = false,
  onSubmit,
}: {
  title: ComponentChildren;
  onClose: () => void;
  children: ComponentChildren;
  foot?: ComponentChildren;
  wide?: boolean;
  onSubmit?: () => void;
}): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = box.current;
    const before = document.activeElement;
    if (element && !element.open) element.showModal();
    return () => {
      element?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={box}
      class={wide ? "wide" : ""}
      aria-labelledby="dialog-title"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit?.();
        }}
      >
        <div class="dialog-head">
          <h2 id="dialog-title">{title}</h2>
          <Button kind="plain" icon="close" label={texts.close} onClick={onClose} />
        </div>
        <div class="dialog-body">{children}</div>
        {foot && <div class="dialog-foot">{foot}</div>}
      </form>
    </dialog>
  );
}

/** A change that destroys or moves: first what it would do, then the typed name, then the change. A preview that the
 * screen does not show in its own way is shown as names and values. */
export function Confirm<P extends object = Record<string, unknown>, R = unknown>({
  title,
  action,
  path,
  body,
  lead,
  children,
  onClose,
  onDone,
  refuse,
}: {
  title: string;
  action: string;
  path: string;
  body: object;
  lead?: string;
  children?: (preview: P) => ComponentChildren;
  onClose: () => void;
  onDone: (answer: R) => void;
  /** Why the change makes no sense with this preview, or null. */
  refuse?: (preview: P) => string | null;
}): JSX.Element {
  const [found, setFound] = useState<Preview<P> | null>(null);
  const [fault, setFault] = useState<ApiError | null>(null);
  const [typed, setTyped] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [round, setRound] = useState(0);
  const asked = JSON.stringify(body);
  useEffect(() => {
    let isOver = false;
    setFound(null);
    setFault(null);
    preview<P>(path, body).then(
      (one) => {
        if (!isOver) setFound(one);
      },
      (error: unknown) => {
        if (!isOver) setFault(asFault(error));
      },
    );
    return () => {
      isOver = true;
    };
  }, [path, asked, round]);

  const change = async (): Promise<void> => {
    setBusy(true);
    setFault(null);
    try {
      onDone(await post<R>(path, { ...body, confirm: typed }));
    } catch (error) {
      setFault(asFault(error));
      setBusy(false);
    }
  };
  const refusal = found && refuse ? refuse(found.preview) : null;
  const isAllowed = found !== null && refusal === null && typed === found.confirm && !isBusy;
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={() => {
        if (isAllowed) void change();
      }}
      foot={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="main-action danger" type="submit" disabled={!isAllowed}>
            {isBusy ? texts.working : action}
          </Button>
        </>
      }
    >
      {fault && <FaultBox fault={fault} retry={() => setRound((old) => old + 1)} />}
      {!found && !fault && <Bones rows={4} />}
      {found && (
        <>
          {lead && <p>{lead}</p>}
          {children ? children(found.preview) : <PreviewPairs preview={found.preview} />}
          {refusal && <p class="warn">{refusal}</p>}
          <Field
            name={texts.typeName}
            note={
              <>
                {texts.typeThis} <code>{found.confirm}</code>
              </>
            }
          >
            <input
              value={typed}
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          </Field>
        </>
      )}
    </Dialog>
  );
}

function PreviewPairs({ preview }: { preview: object }): JSX.Element {
  return (
    <dl class="pairs">
      {Object.entries(preview).map(([name, value]) => (
        <Fragment key={name}>
          <dt>{name.replace(/_/g, " ")}</dt>
          <dd>{visibleText(previewText(name, value))}</dd>
        </Fragment>
      ))}
    </dl>
  );
}
