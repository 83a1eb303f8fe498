// The tools of this gateway: all of them, or one.
import { ToolDetail } from "../tools/detail";
import { ToolList } from "../tools/list";
import "../styles/tools.css";

export function ToolsPage({ name }: { name?: string }) {
  return name === undefined ? <ToolList /> : <ToolDetail key={name} name={name} />;
}
