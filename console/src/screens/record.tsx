import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, canWrite, href } from "../cluster";
import { part, post } from "../net/api";
import { useResource } from "../net/resource";
import type { KafkaRecord, Produced } from "../net/types";
import { bytes, count, moment } from "../pure/format";
import { visibleText } from "../pure/visible_text";
import { texts } from "../texts";
import { ContentBadges, ContentView } from "../ui/content";
import { Badge, Bones, Button, Choice, copyText, Refused } from "../ui/parts";
import { done, tried } from "../ui/toasts";
import { Produce } from "./produce";

const t = texts.record;
type Format = "auto" | "text" | "hex";

function recordPath(topic: string, partition: number, offset: number): string {
  return `${api()}/topics/${part(topic)}/records/${partition}/${offset}`;
}

/** One record in full, beside the list or on a page of its own. */
export function RecordDetail({
  topic,
  partition,
  offset,
  onClose,
}: {
  topic: string;
  partition: number;
  offset: number;
  onClose?: () => void;
}): JSX.Element {
  const [format, setFormat] = useState<Format>("auto");
  const [isEditing, setEditing] = useState(false);
  const path = recordPath(topic, partition, offset);
  const from = useResource<KafkaRecord>(`${path}?format=${format}`);
  const record = from.data;
  const link = href(["topics", topic, partition, offset]);

  const resend = async (): Promise<void> => {
    const answer = await tried(post<Produced>(`${path}/resend`, { to: null, partition: null }));
    const first = answer?.records[0];
    if (first) done(t.sent(topic, first.partition, first.offset));
  };
  return (
    <section class="sheet detail" aria-label={t.title}>
      <div class="sheet-head">
        <h2>
          {t.title}{" "}
          <a class="mono" href={link}>
            {partition}:{count(offset)}
          </a>
        </h2>
        <span class="grow" />
        <Button
          kind="plain small"
          icon="link"
          label={t.copyLink}
          onClick={() => {
            copyText(window.location.origin + link);
            done(t.linkCopied);
          }}
        />
        {onClose && <Button kind="plain small" icon="close" label={texts.close} onClick={onClose} />}
      </div>
      {!record &&
        (from.fault ? (
          <div class="sheet-body">
            <Refused fault={from.fault} retry={from.reload} />
          </div>
        ) : (
          <Bones rows={8} />
        ))}
      {record && (
        <>
          <div class="sheet-body">
            <dl class="pairs">
              <dt>{t.time}</dt>
              <dd>
                {moment(record.timestamp)} <span class="quiet">{record.timestamp_type}</span>
              </dd>
              <dt>{t.size}</dt>
              <dd>{bytes(record.size_bytes)}</dd>
            </dl>
          </div>
          <div class="detail-part">
            <div class="title">
              <Choice
                label={t.showAs}
                value={format}
                options={[
                  ["auto", t.auto],
                  ["text", t.text],
                  ["hex", t.hex],
                ]}
                onChange={setFormat}
              />
              <span class="grow" />
              {canWrite() && (
                <>
                  <Button kind="small" icon="send" onClick={() => setEditing(true)}>
                    {t.edit}
                  </Button>
                  <Button kind="small" onClick={() => void resend()}>
                    {t.resend}
                  </Button>
                </>
              )}
            </div>
          </div>
          <div class="detail-part">
            <div class="title">
              <h3>{t.key}</h3>
              <span class="grow" />
              <ContentBadges content={record.key} />
            </div>
            <ContentView content={record.key} download={`${path}/bytes?part=key`} ifNull={t.noKey} />
          </div>
          <div class="detail-part">
            <div class="title">
              <h3>{t.value}</h3>
              <span class="grow" />
              <ContentBadges content={record.value} />
              {record.value && (
                <a
                  class="button plain icon small"
                  href={`${path}/bytes?part=value`}
                  download
                  aria-label={t.download}
                  title={t.download}
                >
                  <DownloadIcon />
                </a>
              )}
            </div>
            <ContentView content={record.value} download={`${path}/bytes?part=value`} ifNull={t.null} />
          </div>
          <div class="detail-part">
            <div class="title">
              <h3>{t.headers}</h3>
              <Badge>{record.headers.length}</Badge>
            </div>
            {record.headers.length > 0 && (
              <dl class="pairs">
                {record.headers.map((header, index) => (
                  <HeaderPair key={index} name={header.name} text={header.value === null ? null : header.value.text} />
                ))}
              </dl>
            )}
          </div>
        </>
      )}
      {isEditing && record && <Produce topic={topic} from={record} onClose={() => setEditing(false)} />}
    </section>
  );
}

function DownloadIcon(): JSX.Element {
  return (
    <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.7" aria-hidden="true">
      <path d="M12 4v11M7.500 11l4.500 4.500 4.500-4.500M4 20h16" />
    </svg>
  );
}

function HeaderPair({ name, text }: { name: string; text: string | null }): JSX.Element {
  return (
    <>
      <dt class="mono wrap">{visibleText(name)}</dt>
      <dd class="mono">{text === null ? <span class="quiet">null</span> : visibleText(text.slice(0, 20_000))}</dd>
    </>
  );
}
