// Tools whose calls this browser approves from now on, by chat.
import { signal } from "@preact/signals";
import { setStored, stored } from "../storage";

const NAME = "windlass.allowed";
const MAX_CHATS = 50;

type Allowed = Record<string, readonly string[]>;

const allowed = signal<Allowed>(read());

function read(): Allowed {
  try {
    const value: unknown = JSON.parse(stored("sessionStorage", NAME) ?? "{}");
    return typeof value === "object" && value !== null ? (value as Allowed) : {};
  } catch {
    return {};
  }
}

function set(chatId: string, tools: readonly string[]): void {
  const others = Object.entries(allowed.value).filter(([id]) => id !== chatId);
  const all = tools.length ? [...others, [chatId, tools] as const] : others;
  allowed.value = Object.fromEntries(all.slice(-MAX_CHATS));
  setStored("sessionStorage", NAME, JSON.stringify(allowed.value));
}

export function isAllowed(chatId: string | undefined, tool: string): boolean {
  return chatId !== undefined && (allowed.value[chatId] ?? []).includes(tool);
}

export function allow(chatId: string, tool: string): void {
  set(chatId, [...(allowed.value[chatId] ?? []), tool]);
}

export function askAgain(chatId: string, tool: string): void {
  set(chatId, (allowed.value[chatId] ?? []).filter((name) => name !== tool));
}
