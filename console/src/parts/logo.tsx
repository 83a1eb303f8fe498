/** The logo: a windlass seen from its end, a drum with four handles and a rope. */
export function Logo({ size }: { size: number }) {
  return (
    <svg class="logo" width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="currentColor" />
      <g class="logo-lines" fill="none" stroke-width="2.6" stroke-linecap="round">
        <circle cx="16" cy="15" r="5.5" />
        <path d="M16 9.5V4.5M16 20.5v2M10.5 15h-5M21.5 15h5M21.5 15v12" />
      </g>
    </svg>
  );
}
