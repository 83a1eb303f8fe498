// Short texts for times. Pure except for the clock.
import { serverNow } from "../wire/clock";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The heading under which a chat of this time is listed: "Today", "Last 7 days", or a month. */
export function dateGroup(time: number, now = serverNow()): string {
  const midnight = new Date(now * 1000).setHours(0, 0, 0, 0) / 1000;
  if (time >= midnight) return "Today";
  if (time >= midnight - DAY) return "Yesterday";
  if (time >= midnight - 7 * DAY) return "Last 7 days";
  if (time >= midnight - 30 * DAY) return "Last 30 days";
  return new Date(time * 1000).toLocaleDateString("en", { month: "long", year: "numeric" });
}

/** How long ago: "now", "5 min ago", "3 h ago", or the date. */
export function ago(time: number, now = serverNow()): string {
  const passed = now - time;
  if (passed < MINUTE) return "now";
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)} min ago`;
  if (passed < DAY) return `${Math.floor(passed / HOUR)} h ago`;
  return new Date(time * 1000).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

/** The time of day, or the date if it is not today. */
export function clockOf(time: number, now = serverNow()): string {
  const date = new Date(time * 1000);
  if (date.toDateString() !== new Date(now * 1000).toDateString()) return ago(time, Infinity);
  return date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
}

export function moment(time: number): string {
  return new Date(time * 1000).toLocaleString();
}
