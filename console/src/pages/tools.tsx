// The tools page: the list of tools, or one tool.
import { ToolDetail } from "../tools/detail";
import { ToolList } from "../tools/list";
import "../styles/tools.css";

export function ToolsPage({ name }: { name?: string }) {
  return name === undefined ? <ToolList /> : <ToolDetail key={name} name={name} />;
}
