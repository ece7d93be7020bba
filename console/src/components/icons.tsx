const SHAPES = {
  overview: "M2 9.5h3l2-6 3 9 2-5h2",
  runs: "M4 3.5v9l8-4.5z",
  projects: "M2.5 4.5h4l1.2 1.5h5.8v6.5h-11z",
  logs: "M3 4h10M3 8h10M3 12h6",
  connections: "M6.5 9.5l3-3M5 7L3.6 8.4a2.8 2.8 0 0 0 4 4L9 11M11 9l1.4-1.4a2.8 2.8 0 0 0-4-4L7 5",
  issues: "M8 2.5L14 13H2zM8 6.5v3M8 11.2v.2",
  events: "M8.7 2L4 9h3.5L7 14l5-7.5H8.4z",
  approvals: "M3 3h10v10H3zM5.5 8.2l1.8 1.8 3.4-4",
  schedules: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.2l2 1.3",
  systems: "M3 3h4v4H3zM9 9h4v4H9zM9 3h4v4H9zM3 9h4v4H3z",
  catalogue: "M3 2.5h8.5a1.5 1.5 0 0 1 1.5 1.5v9.5H4.5A1.5 1.5 0 0 1 3 12zM3 12a1.5 1.5 0 0 1 1.5-1.5H13M6 5.5h4",
  users: "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3 13.2a5 5 0 0 1 10 0",
  notifications: "M4 11V7.2a4 4 0 0 1 8 0V11l1 1H3zM6.8 13.6h2.4",
  access: "M10.5 2.5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8.3 7.7L3 13M5 11l1.6 1.6",
  audit: "M4 3h8v10.5H4zM6.2 3V2h3.6v1M6 6.5h4M6 8.8h4M6 11h2.5",
  search: "M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM10 10l3.2 3.2",
  theme: "M8 2.5a5.5 5.5 0 1 0 5.5 5.5A4.2 4.2 0 0 1 8 2.5z",
  out: "M9.5 3h-6v10h6M7 8h6.5M11 5.5L13.5 8 11 10.5",
} as const;

export type IconName = keyof typeof SHAPES;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg
      width="16"
      height="16"
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={SHAPES[name]} />
    </svg>
  );
}
