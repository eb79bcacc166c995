/** What a screen shows: fetched once, fetched again every so often while the page is looked at, kept while the server
 * does not answer. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, asFault, get } from "./api";
import { Store } from "./store";

const KEPT = 40;
const MAX_PAUSE_MS = 15_000;

const kept = new Map<string, { data: unknown; at: number }>();

/** When an answer last came, and the fault of the last call: the light in the page's head. */
export const connection = new Store<{ okAt: number; fault: ApiError | null }>({ okAt: 0, fault: null });

export interface Resource<T> {
  data: T | null;
  fault: ApiError | null;
  /** When `data` came. */
  at: number;
  isLoading: boolean;
  reload: () => void;
}

export function forget(prefix: string): void {
  for (const path of kept.keys()) if (path.startsWith(prefix)) kept.delete(path);
}

function keep(path: string, data: unknown, at: number): void {
  kept.delete(path);
  kept.set(path, { data, at });
  const oldest = kept.keys().next().value;
  if (kept.size > KEPT && oldest !== undefined) kept.delete(oldest);
}

interface State<T> {
  path: string | null;
  data: T | null;
  fault: ApiError | null;
  at: number;
  isLoading: boolean;
}

function begin<T>(path: string | null): State<T> {
  const known = path === null ? undefined : kept.get(path);
  return {
    path,
    data: (known?.data as T | undefined) ?? null,
    fault: null,
    at: known?.at ?? 0,
    isLoading: path !== null,
  };
}

/** Faults that another try will not mend by itself. */
function isFinal(fault: ApiError): boolean {
  return fault.status >= 400 && fault.status < 500 && fault.status !== 429 && fault.status !== 408;
}

export function useResource<T>(path: string | null, everyMs = 0): Resource<T> {
  const [state, setState] = useState<State<T>>(() => begin<T>(path));
  const [round, setRound] = useState(0);
  const current = useRef(path);
  current.current = path;
  const shown = state.path === path ? state : begin<T>(path);

  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    let timer = 0;
    let failures = 0;
    setState((old) => (old.path === path ? { ...old, isLoading: true } : begin<T>(path)));
    const again = (pause: number): void => {
      timer = window.setTimeout(() => {
        if (document.hidden) again(pause);
        else void load();
      }, pause);
    };
    const load = async (): Promise<void> => {
      try {
        const data = await get<T>(path, stop.signal);
        failures = 0;
        const at = Date.now();
        keep(path, data, at);
        connection.set({ okAt: at, fault: null });
        setState({ path, data, fault: null, at, isLoading: false });
        if (everyMs > 0) again(everyMs);
      } catch (error) {
        if (stop.signal.aborted) return;
        const fault = asFault(error);
        failures += 1;
        if (!isFinal(fault) && fault.code !== "NOT_AVAILABLE") {
          connection.set({ ...connection.value, fault });
          again(Math.min(MAX_PAUSE_MS, 500 * 2 ** failures));
        } else if (everyMs > 0) again(Math.max(everyMs, MAX_PAUSE_MS));
        setState((old) => ({ ...(old.path === path ? old : begin<T>(path)), fault, isLoading: false }));
      }
    };
    void load();
    return () => {
      stop.abort();
      window.clearTimeout(timer);
    };
  }, [path, everyMs, round]);

  const reload = useCallback(() => setRound((old) => old + 1), []);
  return { data: shown.data, fault: shown.fault, at: shown.at, isLoading: shown.isLoading, reload };
}
