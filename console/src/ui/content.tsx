import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Content } from "../net/types";
import { bytes } from "../pure/format";
import { dump, fromHex } from "../pure/hex";
import { indented, pieces } from "../pure/json_tokens";
import { oneLine, visibleText } from "../pure/visible_text";
import { texts } from "../texts";
import { Badge, Button } from "./parts";

/** More than this is not coloured, and not drawn before one asks for it. */
const COLOURED = 120_000;
const DRAWN = 250_000;

/** JSON in colours. Pieces become text nodes: nothing in them is markup. */
export function Json({ text }: { text: string }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const shown = useMemo(() => {
    const whole = text.length > COLOURED ? text : indented(text);
    return isWhole ? whole : whole.slice(0, DRAWN);
  }, [text, isWhole]);
  const coloured = useMemo(() => (shown.length > COLOURED ? null : pieces(shown)), [shown]);
  return (
    <>
      <pre class="code" tabIndex={0}>
        {coloured
          ? coloured.map((piece, index) =>
              piece.kind === "mark" ? (
                visibleText(piece.text)
              ) : (
                <span key={index} class={piece.kind}>
                  {visibleText(piece.text)}
                </span>
              ),
            )
          : visibleText(shown)}
      </pre>
      {text.length > DRAWN && !isWhole && (
        <Button kind="small" onClick={() => setWhole(true)}>
          {texts.record.showAll(bytes(text.length))}
        </Button>
      )}
    </>
  );
}

export function isJson(content: Content): boolean {
  return content.format !== "text" && content.format !== "hex";
}

/** One line of a content for a table: its beginning, or what it is. */
export function Preview({ content, limit = 220 }: { content: Content | null; limit?: number }): JSX.Element {
  if (content === null) return <span class="quiet">null</span>;
  if (content.text === "") return <span class="quiet">{texts.record.empty}</span>;
  if (content.format === "hex") return <span class="mono quiet">0x{content.text.slice(0, limit)}</span>;
  return <span class="mono">{oneLine(content.text, limit)}</span>;
}

/** A content in full: JSON in colours, text as it is, bytes as a hex dump; cut ones with a link to all of it. */
export function ContentView({
  content,
  download,
  ifNull,
}: {
  content: Content | null;
  download: string;
  ifNull: string;
}): JSX.Element {
  if (content === null) return <p class="quiet">{ifNull}</p>;
  return (
    <>
      {content.error && <p class="warn wrap">{content.error}</p>}
      {content.text === "" && <p class="quiet">{texts.record.empty}</p>}
      {content.text !== "" &&
        (content.format === "hex" ? (
          <pre class="code hex" tabIndex={0}>
            {dump(fromHex(content.text), 65_536)}
          </pre>
        ) : (
          <Json text={content.text} />
        ))}
      {content.is_cut && (
        <p class="warn">
          {texts.record.cut(bytes(content.size_bytes))}{" "}
          <a href={download} download>
            {texts.record.download}
          </a>
        </p>
      )}
    </>
  );
}

export function ContentBadges({ content }: { content: Content | null }): JSX.Element {
  if (content === null) return <Badge>null</Badge>;
  return (
    <span class="badges">
      <Badge tone="accent">{content.format}</Badge>
      {content.schema && <Badge>{texts.record.schema(content.schema.id)}</Badge>}
      {content.is_masked && <Badge tone="warn">{texts.record.masked}</Badge>}
      <Badge>{bytes(content.size_bytes)}</Badge>
    </span>
  );
}
