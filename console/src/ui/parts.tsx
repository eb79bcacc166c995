import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "../net/api";
import type { Resource } from "../net/resource";
import { clock } from "../pure/format";
import { address, format } from "../router";
import { texts } from "../texts";
import { Icon, type IconName } from "./icons";

export type Tone = "good" | "warn" | "bad" | "accent" | "";

export function Badge({ tone = "", children }: { tone?: Tone; children: ComponentChildren }): JSX.Element {
  return <span class={`badge ${tone}`}>{children}</span>;
}

interface ButtonProps {
  children?: ComponentChildren;
  icon?: IconName;
  label?: string;
  kind?: string;
  type?: "button" | "submit";
  disabled?: boolean;
  pressed?: boolean;
  title?: string | undefined;
  onClick?: (event: MouseEvent) => void;
}

export function Button({
  children,
  icon,
  label,
  kind = "",
  type = "button",
  disabled,
  pressed,
  title,
  onClick,
}: ButtonProps): JSX.Element {
  const only = children === undefined;
  return (
    <button
      type={type}
      class={`button ${kind} ${only ? "icon" : ""}`}
      disabled={disabled ?? false}
      aria-label={label}
      aria-pressed={pressed}
      title={title ?? (only ? label : undefined)}
      onClick={onClick}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

export function Field({
  name,
  note,
  size = "",
  children,
}: {
  name: string;
  note?: ComponentChildren;
  size?: "wide" | "narrow" | "";
  children: ComponentChildren;
}): JSX.Element {
  return (
    <label class={`field ${size}`}>
      <span class="name">{name}</span>
      {children}
      {note && <span class="note">{note}</span>}
    </label>
  );
}

export function Choice<T extends string>({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
}): JSX.Element {
  return (
    <fieldset class="choice" aria-label={label}>
      {options.map(([one, text]) => (
        <button type="button" key={one} aria-pressed={one === value} onClick={() => onChange(one)}>
          {text}
        </button>
      ))}
    </fieldset>
  );
}

export function Head({
  title,
  lead,
  crumbs,
  children,
}: {
  title: ComponentChildren;
  lead?: ComponentChildren;
  crumbs?: ComponentChildren;
  children?: ComponentChildren;
}): JSX.Element {
  return (
    <header class="head">
      <div class="grow">
        {crumbs && <div class="crumbs">{crumbs}</div>}
        <h1>{title}</h1>
        {lead && <p class="lead">{lead}</p>}
      </div>
      {children && <div class="actions">{children}</div>}
    </header>
  );
}

export function Sheet({
  title,
  actions,
  children,
  plain = false,
}: {
  title?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
  plain?: boolean;
}): JSX.Element {
  return (
    <section class="sheet">
      {(title || actions) && (
        <div class="sheet-head">
          {title && <h2>{title}</h2>}
          <span class="grow" />
          {actions}
        </div>
      )}
      {plain ? children : <div class="sheet-body">{children}</div>}
    </section>
  );
}

export function Facts({ facts }: { facts: readonly (readonly [string, ComponentChildren, Tone?])[] }): JSX.Element {
  return (
    <dl class="facts">
      {facts.map(([name, value, tone]) => (
        <div class="fact" key={name}>
          <dt>{name}</dt>
          <dd class={tone ?? ""}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Tabs({
  tabs,
  label,
}: {
  tabs: readonly (readonly [string | null, string])[];
  label: string;
}): JSX.Element {
  const now = address.value;
  const view = now.query["view"] ?? null;
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map(([key, text]) => (
        <a
          key={text}
          href={format(now.path, { view: key, cluster: now.query["cluster"] })}
          aria-current={view === key ? "page" : undefined}
        >
          {text}
        </a>
      ))}
    </nav>
  );
}

export function Empty({
  icon,
  title,
  children,
}: {
  icon: IconName;
  title: string;
  children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="empty">
      <Icon name={icon} />
      <strong>{title.charAt(0).toUpperCase() + title.slice(1)}</strong>
      {children}
    </div>
  );
}

/** Grey bones while nothing has come yet; after three seconds it says that the answer is slow. */
export function Bones({ rows = 6 }: { rows?: number }): JSX.Element {
  const [isSlow, setSlow] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => setSlow(true), 3_000);
    return () => window.clearTimeout(timer);
  }, []);
  return (
    <div class="bones" aria-busy="true">
      <span class="sr">{texts.loading}</span>
      {isSlow && <span class="quiet">{texts.slow}</span>}
      {Array.from({ length: rows }, (_, index) => (
        <div class="bone" key={index} />
      ))}
    </div>
  );
}

export function FaultBox({
  fault,
  retry,
}: {
  fault: { message: string; hint: string | null; code?: string };
  retry?: () => void;
}): JSX.Element {
  return (
    <div class="note-box bad" role="alert">
      <Icon name="bad" />
      <div class="grow">
        <div>{fault.message}</div>
        {fault.hint && <div class="hint">{fault.hint}</div>}
      </div>
      {retry && (
        <Button kind="small" icon="reload" onClick={retry}>
          {texts.retry}
        </Button>
      )}
    </div>
  );
}

export function Note({
  tone = "",
  children,
}: {
  tone?: "good" | "warn" | "bad" | "";
  children: ComponentChildren;
}): JSX.Element {
  return (
    <div class={`note-box ${tone}`}>
      <Icon name={tone === "" ? "bad" : tone} />
      <div class="grow">{children}</div>
    </div>
  );
}

/** Draws a resource: bones, then what came; what came stays while the server does not answer, under a line that says so. */
export function Loaded<T>({
  from,
  children,
  rows,
}: {
  from: Resource<T>;
  children: (data: T) => ComponentChildren;
  rows?: number;
}): JSX.Element {
  if (from.data === null) {
    if (from.fault) return <Refused fault={from.fault} retry={from.reload} />;
    return (
      <section class="sheet">
        <Bones rows={rows ?? 6} />
      </section>
    );
  }
  return (
    <>
      {from.fault && (
        <div class="note-box warn" role="status">
          <Icon name="warn" />
          <div class="grow">
            <div>{texts.stale(clock(from.at))}</div>
            <div class="hint">{from.fault.message}</div>
          </div>
          <Button kind="small" icon="reload" onClick={from.reload}>
            {texts.retry}
          </Button>
        </div>
      )}
      {children(from.data)}
    </>
  );
}

/** Why a screen has nothing: not installed, not allowed, not there, or broken. */
export function Refused({ fault, retry }: { fault: ApiError; retry: () => void }): JSX.Element {
  if (fault.code === "NOT_AVAILABLE") {
    return (
      <section class="sheet">
        <Empty icon="plus" title={fault.message}>
          {fault.hint && <p>{fault.hint}</p>}
        </Empty>
      </section>
    );
  }
  if (fault.status === 403) {
    return (
      <section class="sheet">
        <Empty icon="lock" title={texts.faults.forbidden}>
          <p>{fault.message}</p>
          {fault.hint && <p>{fault.hint}</p>}
        </Empty>
      </section>
    );
  }
  if (fault.status === 404) {
    return (
      <section class="sheet">
        <Empty icon="search" title={fault.message}>
          {fault.hint && <p>{fault.hint}</p>}
        </Empty>
      </section>
    );
  }
  return <FaultBox fault={fault} retry={retry} />;
}

export function Bar({ share, tone = "", label }: { share: number; tone?: Tone; label: string }): JSX.Element {
  const width = Math.max(0, Math.min(1, share)) * 100;
  return (
    <div
      class={`bar ${tone}`}
      role="progressbar"
      aria-label={label}
      aria-valuenow={Math.round(width)}
      aria-valuemin={0}
      aria-valuemax={100}
    >
      <i style={{ width: `${width}%` }} />
    </div>
  );
}

/** A small line of the last values. */
export function Spark({ values, label }: { values: readonly (number | null)[]; label: string }): JSX.Element | null {
  const known = values.filter((one): one is number => one !== null);
  if (known.length < 2) return null;
  const top = Math.max(1, ...known);
  const points = values
    .map((value, index) =>
      value === null ? null : `${(index / (values.length - 1)) * 100},${28 - (value / top) * 25}`,
    )
    .filter((one): one is string => one !== null);
  const line = `M${points.join("L")}`;
  const first = points[0]?.split(",")[0] ?? "0";
  const last = points.at(-1)?.split(",")[0] ?? "100";
  return (
    <svg class="spark" viewBox="0 0 100 28" preserveAspectRatio="none" role="img" aria-label={label}>
      <path class="under" d={`${line}L${last},28L${first},28Z`} />
      <path d={line} />
    </svg>
  );
}

/** The head of a column: its text, in `num` above numbers. */
export type Heading = string | { num: string };

/** A table in a box that scrolls by itself, with the keyboard too. Without `heads` the table brings its own head. */
export function TableBox({
  label,
  heads,
  children,
}: {
  label: string;
  heads?: readonly Heading[];
  children: ComponentChildren;
}): JSX.Element {
  return (
    <section class="table-box" aria-label={label} tabIndex={0}>
      <table>
        {heads && (
          <thead>
            <tr>
              {heads.map((one, index) =>
                typeof one === "string" ? (
                  <Th key={index}>{one}</Th>
                ) : (
                  <Th key={index} num>
                    {one.num}
                  </Th>
                ),
              )}
            </tr>
          </thead>
        )}
        {children}
      </table>
    </section>
  );
}

/** A `th` that sorts nothing: its text and whether it holds numbers. */
export function Th({ children, num = false }: { children?: ComponentChildren; num?: boolean }): JSX.Element {
  return (
    <th scope="col" class={num ? "num" : ""}>
      {children}
    </th>
  );
}

/** The field that filters a list while it is typed in. */
export function Filter({
  label,
  value,
  onInput,
}: {
  label: string;
  value: string;
  onInput: (typed: string) => void;
}): JSX.Element {
  return (
    <input
      type="search"
      class="filter"
      aria-label={label}
      placeholder={label}
      value={value}
      spellcheck={false}
      onInput={(event) => onInput(event.currentTarget.value)}
    />
  );
}

export function copyText(text: string): void {
  void navigator.clipboard?.writeText(text);
}
