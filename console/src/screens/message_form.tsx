import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../cluster";
import { ApiError, post } from "../net/api";
import { EMPTY, type Form } from "../pure/search_form";
import { texts } from "../texts";
import { Button, Field } from "../ui/parts";

const t = texts.messages;

function local(timestamp: number): string {
  const date = new Date(timestamp - new Date(timestamp).getTimezoneOffset() * 60_000);
  return date.toISOString().slice(0, 19);
}

function Where({
  name,
  kind,
  at,
  options,
  onChange,
}: {
  name: string;
  kind: string;
  at: string;
  options: readonly (readonly [string, string])[];
  onChange: (kind: string, at: string) => void;
}): JSX.Element {
  return (
    <>
      <Field name={name}>
        <select
          value={kind}
          onChange={(event) => {
            const next = event.currentTarget.value;
            onChange(next, next === "time" ? local(Date.now() - 3_600_000) : "");
          }}
        >
          {options.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </Field>
      {kind === "offset" && (
        <Field name={t.atOffset(name)} size="narrow">
          <input inputMode="numeric" value={at} onInput={(event) => onChange(kind, event.currentTarget.value)} />
        </Field>
      )}
      {kind === "time" && (
        <Field name={t.atTime(name)}>
          <input
            type="datetime-local"
            step="1"
            value={at}
            onInput={(event) => onChange(kind, event.currentTarget.value)}
          />
        </Field>
      )}
    </>
  );
}

/** What to look for. The first line is enough most days; the rest unfolds. */
export function MessageForm({
  form,
  onChange,
  partitionCount,
  isLive,
  onSearch,
  onLive,
  startsOpen,
}: {
  form: Form;
  onChange: (next: Form) => void;
  partitionCount: number;
  isLive: boolean;
  onSearch: () => void;
  onLive: () => void;
  startsOpen: boolean;
}): JSX.Element {
  const [isOpen, setOpen] = useState(startsOpen);
  const [wrong, setWrong] = useState<string | null>(null);
  const set = (change: Partial<Form>): void => onChange({ ...form, ...change });
  const text = (field: keyof Form) => (event: { currentTarget: HTMLInputElement }) =>
    set({ [field]: event.currentTarget.value });

  useEffect(() => {
    const expression = form.expression.trim();
    if (!expression) {
      setWrong(null);
      return;
    }
    const stop = new AbortController();
    const timer = window.setTimeout(() => {
      post(`${api()}/expression`, { expression }, stop.signal).then(
        () => setWrong(null),
        (error: unknown) => {
          if (error instanceof ApiError && error.code === "INVALID") setWrong(error.message);
        },
      );
    }, 350);
    return () => {
      stop.abort();
      window.clearTimeout(timer);
    };
  }, [form.expression]);

  return (
    <form
      class="sheet"
      aria-label={t.form}
      onSubmit={(event) => {
        event.preventDefault();
        onSearch();
      }}
    >
      <div class="sheet-body form">
        <div class="form-row">
          <Field name={t.text} size="wide">
            <input value={form.text} placeholder={t.textHint} spellcheck={false} onInput={text("text")} />
          </Field>
          <Field name={t.keyIs}>
            <input value={form.key} placeholder={t.keyHint} spellcheck={false} onInput={text("key")} />
          </Field>
          <Where
            name={t.from}
            kind={form.from}
            at={form.fromAt}
            options={t.fromOptions}
            onChange={(from, fromAt) => set({ from, fromAt })}
          />
          <Field name={t.order} size="narrow">
            <select value={form.order} onChange={(event) => set({ order: event.currentTarget.value as Form["order"] })}>
              <option value="newest">{t.newest}</option>
              <option value="oldest">{t.oldest}</option>
            </select>
          </Field>
          <Button type="submit" kind="main-action" icon="search">
            {t.search}
          </Button>
          <Button icon={isLive ? "stop" : "play"} pressed={isLive} onClick={onLive}>
            {t.live}
          </Button>
          <Button kind="plain" icon={isOpen ? "up" : "down"} onClick={() => setOpen(!isOpen)} pressed={isOpen}>
            {t.filters}
          </Button>
        </div>
        {isOpen && (
          <>
            <div class="form-row">
              <Field name={t.expression} size="wide" note={wrong ? <span class="bad">{wrong}</span> : t.expressionHint}>
                <input
                  class="mono"
                  value={form.expression}
                  placeholder="value.amount > 100 and key startswith 'A'"
                  spellcheck={false}
                  onInput={text("expression")}
                />
              </Field>
              <Field name={t.path} note={t.pathHint}>
                <input
                  class="mono"
                  value={form.path}
                  placeholder="$.customer.id"
                  spellcheck={false}
                  onInput={text("path")}
                />
              </Field>
              <Field name={t.equals} note={t.equalsHint}>
                <input class="mono" value={form.equals} spellcheck={false} onInput={text("equals")} />
              </Field>
            </div>
            <div class="form-row">
              <Field name={t.headerName}>
                <input value={form.headerName} spellcheck={false} onInput={text("headerName")} />
              </Field>
              <Field name={t.headerValue}>
                <input value={form.headerValue} placeholder={t.any} spellcheck={false} onInput={text("headerValue")} />
              </Field>
              <Field name={t.partitions} size="narrow">
                <input value={form.partitions} placeholder={t.allOf(partitionCount)} onInput={text("partitions")} />
              </Field>
              <Where
                name={t.to}
                kind={form.to}
                at={form.toAt}
                options={t.toOptions}
                onChange={(to, toAt) => set({ to, toAt })}
              />
              <Field name={t.limit} size="narrow">
                <input inputMode="numeric" value={form.limit} onInput={text("limit")} />
              </Field>
              <Field name={t.format} size="narrow">
                <select
                  value={form.format}
                  onChange={(event) => set({ format: event.currentTarget.value as Form["format"] })}
                >
                  {(["auto", "json", "text", "hex"] as const).map((one) => (
                    <option key={one} value={one}>
                      {t.formats[one]}
                    </option>
                  ))}
                </select>
              </Field>
              <label class="tick">
                <input
                  type="checkbox"
                  checked={form.ignoreCase}
                  onChange={(event) => set({ ignoreCase: event.currentTarget.checked })}
                />
                {t.ignoreCase}
              </label>
              <Button kind="plain" onClick={() => onChange(EMPTY)}>
                {t.clear}
              </Button>
            </div>
          </>
        )}
      </div>
    </form>
  );
}
