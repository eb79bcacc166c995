import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, canWrite, href } from "../cluster";
import { useResource } from "../net/resource";
import type { Transactions } from "../net/types";
import { ago, count, duration, plural } from "../pure/format";
import { visibleText } from "../pure/visible_text";
import { texts } from "../texts";
import { Confirm } from "../ui/dialog";
import { Badge, Button, Empty, Head, Loaded, Sheet, TableBox } from "../ui/parts";
import { done } from "../ui/toasts";

const t = texts.transactions;

type Hanging = NonNullable<Transactions["hanging"]>[number];
type Open = { kind: "open"; id: string } | { kind: "hanging"; of: Hanging } | null;

export function TransactionsScreen(): JSX.Element {
  const [looks, setLooks] = useState(false);
  const from = useResource<Transactions>(`${api()}/transactions${looks ? "?hanging=true" : ""}`, looks ? 0 : 5_000);
  const [open, setOpen] = useState<Open>(null);
  const ended = (): void => {
    done(t.ended);
    setOpen(null);
    from.reload();
  };
  return (
    <>
      <Head title={t.title} lead={t.lead}>
        <Button icon="search" onClick={() => (looks ? from.reload() : setLooks(true))}>
          {from.isLoading && looks ? texts.working : t.look}
        </Button>
      </Head>
      <Loaded from={from}>
        {(data) => (
          <>
            {looks && data.hanging && (
              <HangingList hanging={data.hanging} onEnd={(of) => setOpen({ kind: "hanging", of })} />
            )}
            <Sheet plain title={t.open}>
              {data.open.length === 0 ? (
                <Empty icon="transactions" title={t.none}>
                  <p>{t.noneHint}</p>
                </Empty>
              ) : (
                <TableBox
                  label={t.open}
                  heads={[t.id, t.state, { num: t.began }, { num: t.timeout }, t.partitions, { num: t.producer }, ""]}
                >
                  <tbody>
                    {data.open.map((one) => (
                      <tr key={one.transactional_id}>
                        <td class="wrap">{visibleText(one.transactional_id)}</td>
                        <td>
                          <Badge tone={one.state.toLowerCase() === "ongoing" ? "accent" : ""}>{one.state}</Badge>
                        </td>
                        <td class="num">{ago(one.started_at, Date.now())}</td>
                        <td class="num">{duration(one.timeout_ms / 1000)}</td>
                        <td title={one.partitions.map((each) => `${each.topic}-${each.partition}`).join("\n")}>
                          {plural(one.partitions.length, "partition")}
                        </td>
                        <td class="num mono">
                          {one.producer_id}:{one.producer_epoch}
                        </td>
                        <td class="num">
                          {canWrite() && (
                            <Button
                              kind="small danger"
                              onClick={() => setOpen({ kind: "open", id: one.transactional_id })}
                            >
                              {t.end}
                            </Button>
                          )}
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </TableBox>
              )}
            </Sheet>
          </>
        )}
      </Loaded>
      {open && (
        <Confirm
          title={open.kind === "open" ? t.endTitle(open.id) : t.endHanging}
          action={t.end}
          path={open.kind === "open" ? `${api()}/transactions/end` : `${api()}/transactions/end-hanging`}
          body={open.kind === "open" ? { transactional_id: open.id } : bodyOf(open.of)}
          onClose={() => setOpen(null)}
          onDone={ended}
          lead={open.kind === "open" ? t.endLead : t.hangingLead}
        />
      )}
    </>
  );
}

function bodyOf(one: Hanging): object {
  const { last_at: _last, ...body } = one;
  return body;
}

function HangingList({ hanging, onEnd }: { hanging: Hanging[]; onEnd: (one: Hanging) => void }): JSX.Element {
  return (
    <Sheet plain title={t.hanging}>
      {hanging.length === 0 ? (
        <Empty icon="good" title={t.noneHang}>
          <p>{t.noneHangHint}</p>
        </Empty>
      ) : (
        <TableBox
          label={t.hanging}
          heads={[t.partition, { num: t.producer }, { num: t.start }, { num: t.lastWrite }, ""]}
        >
          <tbody>
            {hanging.map((one) => (
              <tr key={`${one.topic}/${one.partition}/${one.producer_id}`}>
                <td class="mono">
                  <a href={href(["topics", one.topic, one.partition, one.start_offset])}>
                    {visibleText(one.topic)}-{one.partition}
                  </a>
                </td>
                <td class="num mono">
                  {one.producer_id}:{one.producer_epoch}
                </td>
                <td class="num">{count(one.start_offset)}</td>
                <td class="num">{ago(one.last_at, Date.now())}</td>
                <td class="num">
                  {canWrite() && (
                    <Button kind="small danger" onClick={() => onEnd(one)}>
                      {t.end}
                    </Button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </TableBox>
      )}
    </Sheet>
  );
}
