// Times and amounts in few words. Pure, but for the clock.
import { serverNow } from "../wire/clock";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How long ago that was: "now", "5 min", "3 h", and then its date. */
export function ago(time: number, now = serverNow()): string {
  const passed = now - time;
  if (passed < MINUTE) return "now";
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)} min`;
  if (passed < DAY) return `${Math.floor(passed / HOUR)} h`;
  return new Date(time * 1000).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

export function moment(time: number): string {
  return new Date(time * 1000).toLocaleString();
}

/** "0.42 s", "12 s", "3 min 5 s". */
export function lasted(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(seconds < 1 ? 2 : 1)} s`;
  if (seconds < MINUTE) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / MINUTE)} min ${whole % MINUTE} s`;
}

export function amount(number: number): string {
  return number.toLocaleString("en");
}
