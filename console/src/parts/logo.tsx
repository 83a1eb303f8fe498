/** The logo: a windlass seen from its end, a drum and a rope with a hook. */
export function Logo({ size }: { size: number }) {
  return (
    <svg class="logo" width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="currentColor" />
      <g class="logo-lines" fill="none" stroke-width="2.8" stroke-linecap="round">
        <circle cx="13" cy="13" r="6.5" />
        <path d="M19.5 13v9.5a3 3 0 0 0 6 0M13 13h.01" />
      </g>
    </svg>
  );
}
