import { Component, h, type ComponentType } from "preact";

/** The component, which renders again only when one of its props changes. */
export function memo<Props extends object>(drawn: ComponentType<Props>): ComponentType<Props> {
  return class Memo extends Component<Props> {
    override shouldComponentUpdate(next: Readonly<Props>): boolean {
      return !contains(this.props, next) || !contains(next, this.props);
    }

    override render() {
      return h(drawn, this.props);
    }
  };
}

function contains<T extends object>(whole: T, part: T): boolean {
  for (const name in part) if (whole[name] !== part[name]) return false;
  return true;
}
