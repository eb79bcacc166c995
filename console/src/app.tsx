import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { clusterName, href } from "./cluster";
import { isTyping, JUMPS, Keys } from "./keys";
import { type ApiError, asFault, logOut, openSession, session } from "./net/api";
import { connection } from "./net/resource";
import { useStore } from "./net/store";
import { type Address, address, format, go } from "./router";
import { screenOf } from "./screens/all";
import { ComeBack, Login } from "./screens/login";
import { texts } from "./texts";
import { nextTheme, theme } from "./theme";
import { Dialog } from "./ui/dialog";
import { Finder } from "./ui/finder";
import { Icon, type IconName, Logo } from "./ui/icons";
import { Bones, Button, FaultBox } from "./ui/parts";
import { Toasts, tried } from "./ui/toasts";

const MENU: readonly (readonly [
  title: string,
  items: readonly (readonly [screen: string, icon: IconName, name: string])[],
])[] = [
  [
    "",
    [
      ["", "overview", texts.nav.overview],
      ["topics", "topics", texts.nav.topics],
      ["groups", "groups", texts.nav.groups],
      ["dead-letters", "letters", texts.nav.letters],
    ],
  ],
  [
    texts.nav.data,
    [
      ["schemas", "schemas", texts.nav.schemas],
      ["pipelines", "pipelines", texts.nav.pipelines],
      ["sql", "sql", texts.nav.sql],
      ["transactions", "transactions", texts.nav.transactions],
    ],
  ],
  [
    texts.nav.cluster,
    [
      ["brokers", "brokers", texts.nav.brokers],
      ["metrics", "metrics", texts.nav.metrics],
      ["access", "access", texts.nav.access],
      ["jobs", "jobs", texts.nav.jobs],
    ],
  ],
];

export function App(): JSX.Element {
  const now = useStore(session);
  const at = useStore(address);
  const [fault, setFault] = useState<ApiError | null>(null);
  const [tries, setTries] = useState(0);

  useEffect(() => {
    let timer = 0;
    openSession().then(
      () => setFault(null),
      (error: unknown) => {
        setFault(asFault(error));
        timer = window.setTimeout(() => setTries((old) => old + 1), Math.min(8_000, 1_000 * 2 ** tries));
      },
    );
    return () => window.clearTimeout(timer);
  }, [tries]);

  if (!now) {
    return (
      <main class="login">
        <h1 class="sr">{texts.product}</h1>
        {fault ? <FaultBox fault={fault} retry={() => setTries(0)} /> : <Bones rows={3} />}
      </main>
    );
  }
  if (isComingBack(at)) return <ComeBack query={at.query} />;
  if (now.login === "required") return <Login session={now} />;
  return <Frame />;
}

/** Whether the issuer of a login has sent the browser here. */
function isComingBack(at: Address): boolean {
  return at.path.length === 2 && at.path[0] === "login" && at.path[1] === "callback";
}

function Frame(): JSX.Element {
  const at = useStore(address);
  const [isOpen, setOpen] = useState(false);
  const [isHelp, setHelp] = useState(false);
  const main = useRef<HTMLElement>(null);
  const screen = at.path[0] ?? "";
  const where = at.path.join("/");

  useEffect(() => {
    const keys = new Keys();
    const press = (event: KeyboardEvent): void => {
      if (
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        isTyping(event.target) ||
        document.querySelector("dialog[open]")
      )
        return;
      const command = keys.press(event.key, event.timeStamp);
      if (!command) return;
      event.preventDefault();
      if (command.kind === "jump") go(href(command.screen ? [command.screen] : []));
      else if (command.kind === "find") (document.querySelector("[data-find]") as HTMLElement | null)?.focus();
      else if (command.kind === "help") setHelp(true);
      else nextTheme();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
  useEffect(() => {
    setOpen(false);
    document.title = `${titleOf(at)} – ${texts.product}`;
    main.current?.focus({ preventScroll: true });
  }, [where]);

  return (
    <div class="frame">
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        {texts.skip}
      </button>
      <Side screen={screen} isOpen={isOpen} />
      {isOpen && <button type="button" class="veil" aria-label={texts.close} onClick={() => setOpen(false)} />}
      <div>
        <div class="top">
          <span class="menu-button">
            <Button kind="plain" icon="menu" label={texts.menu} onClick={() => setOpen(true)} />
          </span>
          <Finder />
          <span class="grow" />
          <Light />
          <Clusters />
          <ThemeButton />
          <span class="wide">
            <Button kind="plain" label={texts.help} onClick={() => setHelp(true)}>
              ?
            </Button>
          </span>
        </div>
        <main class="main" id="main" ref={main} tabIndex={-1} key={clusterName()}>
          {screenOf(at)}
        </main>
      </div>
      {isHelp && <Help onClose={() => setHelp(false)} />}
      <Toasts />
    </div>
  );
}

function titleOf(at: Address): string {
  const name = JUMPS.find(([, screen]) => screen === (at.path[0] ?? ""))?.[2] ?? texts.notFound;
  return at.path.length > 1 ? `${at.path.slice(1).join(" / ")} · ${name}` : name;
}

function Side({ screen, isOpen }: { screen: string; isOpen: boolean }): JSX.Element {
  const now = useStore(session);
  return (
    <aside class="side" data-open={isOpen}>
      <a class="brand" href={href([])}>
        <Logo />
        {texts.product}
      </a>
      <nav class="nav" aria-label={texts.menu}>
        {MENU.map(([title, items]) => (
          <div class="nav" key={title}>
            {title && <div class="nav-title">{title}</div>}
            {items.map(([path, icon, name]) => (
              <a key={path} href={href(path ? [path] : [])} aria-current={screen === path ? "page" : undefined}>
                <Icon name={icon} />
                {name}
              </a>
            ))}
          </div>
        ))}
      </nav>
      <div class="side-foot">
        {now?.read_only && <span>{texts.readOnly}</span>}
        {now?.user && (
          <span class="wrap">
            {now.user}{" "}
            <button type="button" class="link" onClick={() => void tried(logOut())}>
              {texts.logOut}
            </button>
          </span>
        )}
        <span>
          {texts.product} {now?.version}
        </span>
      </div>
    </aside>
  );
}

/** Whether the server answers, in the head of every page. */
function Light(): JSX.Element {
  const { fault } = useStore(connection);
  const tone = fault ? (fault.code === "OFFLINE" ? "bad" : "warn") : "good";
  const text = fault ? (fault.code === "OFFLINE" ? texts.light.offline : texts.light.trouble) : texts.light.good;
  return (
    <span class="light" role="status" title={fault?.message ?? text}>
      <i class={`dot ${tone}`} />
      <span>{text}</span>
    </span>
  );
}

function Clusters(): JSX.Element | null {
  const now = useStore(session);
  if (!now || now.clusters.length < 2) return null;
  return (
    <select
      aria-label={texts.cluster}
      value={clusterName()}
      onChange={(event) => go(format([], { cluster: event.currentTarget.value }))}
    >
      {now.clusters.map((one) => (
        <option key={one.name} value={one.name}>
          {one.name}
        </option>
      ))}
    </select>
  );
}

function ThemeButton(): JSX.Element {
  const now = useStore(theme);
  const icon = now === "auto" ? "auto" : now === "light" ? "sun" : "moon";
  return <Button kind="plain" icon={icon} label={texts.theme[now]} onClick={nextTheme} />;
}

function Help({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title={texts.keys.title} onClose={onClose}>
      <dl class="shortcut">
        {[
          [["/"], texts.keys.find] as const,
          [["?"], texts.keys.help] as const,
          [["T"], texts.keys.theme] as const,
          [["↑", "↓"], texts.keys.rows] as const,
          [["Esc"], texts.keys.escape] as const,
          ...JUMPS.map(([letter, , name]) => [["g", letter], name] as const),
        ].map(([keys, what]) => (
          <>
            <dt key={what}>
              {keys.map((key) => (
                <>
                  <kbd>{key}</kbd>{" "}
                </>
              ))}
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
    </Dialog>
  );
}
