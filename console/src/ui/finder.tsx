import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, href } from "../cluster";
import { JUMPS } from "../keys";
import { useResource } from "../net/resource";
import type { Groups, Topics } from "../net/types";
import { suggestions } from "../pure/filter";
import { oneLine } from "../pure/visible_text";
import { go } from "../router";
import { texts } from "../texts";
import { Icon } from "./icons";

interface Found {
  name: string;
  what: string;
  to: string;
}

/** The search box in the head: topics, groups and screens by name. */
export function Finder(): JSX.Element {
  const [query, setQuery] = useState("");
  const [isOpen, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const topics = useResource<Topics>(isOpen ? `${api()}/topics?internal=true` : null);
  const groups = useResource<Groups>(isOpen ? `${api()}/groups` : null);

  const found: Found[] = isOpen
    ? [
        ...suggestions(
          (topics.data?.topics ?? []).map((one) => one.name),
          query,
          8,
        ).map((name) => ({
          name,
          what: texts.nav.topics,
          to: href(["topics", name]),
        })),
        ...suggestions(
          (groups.data?.groups ?? []).map((one) => one.group),
          query,
          6,
        ).map((name) => ({
          name,
          what: texts.nav.groups,
          to: href(["groups", name]),
        })),
        ...JUMPS.filter(([, , name]) => query && name.toLowerCase().startsWith(query.trim().toLowerCase())).map(
          ([, screen, name]) => ({ name, what: texts.screen, to: href(screen ? [screen] : []) }),
        ),
      ]
    : [];
  const choose = (one: Found | undefined): void => {
    if (!one) return;
    setQuery("");
    setOpen(false);
    go(one.to);
  };
  return (
    <div class="finder">
      <Icon name="search" />
      <input
        data-find
        role="combobox"
        aria-label={texts.find}
        aria-expanded={isOpen && found.length > 0}
        aria-controls="found"
        aria-autocomplete="list"
        aria-activedescendant={isOpen && found[at] ? `found-${at}` : undefined}
        placeholder={texts.find}
        value={query}
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => {
          setQuery(event.currentTarget.value);
          setAt(0);
          setOpen(true);
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => window.setTimeout(() => setOpen(false), 150)}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setAt(Math.min(found.length - 1, at + 1));
          else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
          else if (event.key === "Enter") choose(found[at]);
          else if (event.key === "Escape") event.currentTarget.blur();
          else return;
          event.preventDefault();
        }}
      />
      <kbd>/</kbd>
      {isOpen && query && (
        <div class="finder-list" id="found" role="listbox" aria-label={texts.find}>
          {found.map((one, index) => (
            <div
              key={one.to}
              id={`found-${index}`}
              role="option"
              aria-selected={index === at}
              onMouseDown={(event) => {
                event.preventDefault();
                choose(one);
              }}
            >
              <span class="cut">{oneLine(one.name, 120)}</span>
              <span class="what">{one.what}</span>
            </div>
          ))}
          {found.length === 0 && (
            <div role="option" aria-selected={false} class="quiet">
              {texts.nothingFound}
            </div>
          )}
        </div>
      )}
    </div>
  );
}
