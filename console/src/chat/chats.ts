// The conversations that the gateway keeps, and how the tabs of a browser tell each other of them.
import { signal } from "@preact/signals";
import { api } from "../wire/api";
import type { Chat } from "../wire/types";

export const chats = signal<readonly Chat[] | null>(null);
/** Whether the gateway keeps conversations at all; known after the first message. */
export const kept = signal(true);

const tabs = new BroadcastChannel("windlass.chats");

/** Tells this browser's other tabs that something has changed in a chat. */
export function tell(chatId: string): void {
  tabs.postMessage(chatId);
}

/** Is called with the chat in which another tab has changed something. */
export function hear(changed: (chatId: string) => void): () => void {
  const heard = (event: MessageEvent<string>) => changed(event.data);
  tabs.addEventListener("message", heard);
  return () => tabs.removeEventListener("message", heard);
}

/** A gateway that is away leaves the list as it was. */
export async function refreshChats(): Promise<void> {
  try {
    chats.value = await api.chats();
  } catch {
    chats.value ??= [];
  }
}

export async function deleteChat(chatId: string): Promise<void> {
  await api.deleteChat(chatId);
  chats.value = (chats.value ?? []).filter(({ id }) => id !== chatId);
  tell(chatId);
}
