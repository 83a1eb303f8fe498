// The chats that the gateway stores, and messages about them between browser tabs.
import { signal } from "@preact/signals";
import { api } from "../wire/api";
import type { Chat } from "../wire/types";

export const chats = signal<readonly Chat[] | null>(null);
/** Whether the gateway stores chats; known after the first message. */
export const storesChats = signal(true);

const tabs = new BroadcastChannel("windlass.chats");

/** Notifies this browser's other tabs that a chat has changed. */
export function notifyTabs(chatId: string): void {
  tabs.postMessage(chatId);
}

/** Calls `changed` with the id of each chat that another tab changes. */
export function onTabChange(changed: (chatId: string) => void): () => void {
  const heard = (event: MessageEvent<string>) => changed(event.data);
  tabs.addEventListener("message", heard);
  return () => tabs.removeEventListener("message", heard);
}

/** If the gateway cannot be reached, the list stays as it is. */
export async function refreshChats(): Promise<void> {
  try {
    chats.value = await api.chats();
  } catch {
    chats.value ??= [];
  }
}

/** Returns the new title. Throws what `api.renameChat` throws. */
export async function renameChat(chatId: string, title: string): Promise<string> {
  const renamed = await api.renameChat(chatId, title);
  chats.value = (chats.value ?? []).map((chat) => (chat.id === chatId ? { ...chat, title: renamed.title } : chat));
  notifyTabs(chatId);
  return renamed.title;
}

export async function deleteChat(chatId: string): Promise<void> {
  await api.deleteChat(chatId);
  chats.value = (chats.value ?? []).filter(({ id }) => id !== chatId);
  notifyTabs(chatId);
}
