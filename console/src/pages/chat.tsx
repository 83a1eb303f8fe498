export function ChatPage({ chatId }: { chatId?: string }) {
  return <section class="page"><h1>Chat</h1>{chatId}</section>;
}
