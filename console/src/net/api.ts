/** Calls of the console's server. A failure is an ApiError with what happened and what to do. */
import { texts } from "../texts";
import { remember, remembered } from "../theme";
import { Store } from "./store";
import type { Fault, Preview, Session } from "./types";

const TIMEOUT_MS = 60_000;
const WAY_BACK = "ottla.way-back";
const CALLBACK = "/login/callback";

export class ApiError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly hint: string | null,
    readonly status: number,
  ) {
    super(message);
  }
}

/** What was thrown, as a fault that can be shown. */
export function asFault(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError("INTERNAL", String(error), null, 0);
}

export const session = new Store<Session | null>(null);

function faultOf(body: unknown): Fault | null {
  if (typeof body !== "object" || body === null || !("error" in body)) return null;
  const fault = (body as { error: Partial<Fault> | null }).error;
  if (!fault || typeof fault.message !== "string") return null;
  return { code: String(fault.code ?? "INTERNAL"), message: fault.message, hint: fault.hint ?? null };
}

async function call<T>(path: string, init: RequestInit, signal?: AbortSignal): Promise<T> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  let answer: Response;
  let body: unknown = null;
  try {
    answer = await fetch(path, {
      ...init,
      credentials: "same-origin",
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    const text = await answer.text();
    try {
      body = text ? JSON.parse(text) : null;
    } catch {
      if (answer.ok) throw new ApiError("INTERNAL", texts.faults.notJson, texts.faults.notJsonHint, answer.status);
    }
  } catch (error) {
    if (error instanceof ApiError) throw error;
    if (signal?.aborted) throw error;
    if (timeout.aborted) throw new ApiError("TIMED_OUT", texts.faults.slow, texts.faults.slowHint, 0);
    throw new ApiError("OFFLINE", texts.faults.offline, texts.faults.offlineHint, 0);
  }
  if (!answer.ok) {
    const fault = faultOf(body);
    if (answer.status === 401 && session.value && fault?.code === "LOGIN_REQUIRED") {
      session.set({ ...session.value, login: "required", user: null });
    }
    throw new ApiError(
      fault?.code ?? "INTERNAL",
      fault?.message ?? texts.faults.status(answer.status),
      fault?.hint ?? null,
      answer.status,
    );
  }
  return body as T;
}

export function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return call<T>(path, { headers: { Accept: "application/json" } }, signal);
}

/** A console that was started anew knows neither the cookie nor the token: both are asked for again, once. */
export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  try {
    return await send<T>(path, body, signal);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "CSRF") throw error;
    await openSession();
    return send<T>(path, body, signal);
  }
}

function send<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return call<T>(
    path,
    {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Ottla-Csrf": session.value?.csrf ?? "" },
      body: JSON.stringify(body),
    },
    signal,
  );
}

/** What a change would do, and the word that allows it. */
export function preview<T>(path: string, body: object): Promise<Preview<T>> {
  return post<Preview<T>>(path, { ...body, preview: true });
}

export async function openSession(): Promise<void> {
  session.set(await get<Session>("/api/session"));
}

export async function logIn(username: string, password: string, mechanism: string | null): Promise<void> {
  session.set(await post<Session>("/api/login", { username, password, mechanism }));
}

/** Goes to the issuer's page, which comes back to /login/callback of this console. */
export async function logInElsewhere(): Promise<void> {
  const { location } = await post<{ location: string }>("/api/login", { oidc: true });
  remember(WAY_BACK, window.location.pathname + window.location.search);
  window.location.assign(location);
}

/** The issuer's answer for the session; then the page that the login began on. */
export async function comeBack(query: Record<string, string>): Promise<void> {
  const { code, state } = query;
  if (code === undefined) {
    throw new ApiError("LOGIN_FAILED", texts.login.refused, query["error_description"] ?? query["error"] ?? null, 0);
  }
  session.set(await post<Session>("/api/login", { code, state }));
}

/** Where a login began: an address of this console, never another. */
export function wayBack(): string {
  const kept = remembered(WAY_BACK);
  return kept?.startsWith("/") && !kept.startsWith("//") && !kept.startsWith(CALLBACK) ? kept : "/";
}

export async function logOut(): Promise<void> {
  session.set(await post<Session>("/api/logout", {}));
}

export const part = encodeURIComponent;
