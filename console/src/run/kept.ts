import { Component, h, type ComponentType } from "preact";

/** The component, drawn again only when one of its props is another one. */
export function kept<Props extends object>(drawn: ComponentType<Props>): ComponentType<Props> {
  return class Kept extends Component<Props> {
    override shouldComponentUpdate(next: Readonly<Props>): boolean {
      const names = new Set([...Object.keys(this.props), ...Object.keys(next)]);
      return [...names].some((name) => this.props[name as keyof Props] !== next[name as keyof Props]);
    }

    override render() {
      return h(drawn, this.props);
    }
  };
}
