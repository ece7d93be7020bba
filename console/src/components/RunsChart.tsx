import { Link } from "wouter";
import { short } from "../lib/time";

export interface Bucket {
  start: string;
  executions: number;
  errors: number;
}

const WIDTH = 960;
const HEIGHT = 112;
const GAP = 3;

/** Runs and failures over time as bars; each leads to the runs of its time. */
export function RunsChart({
  series,
  hrefOf,
}: {
  series: Bucket[];
  hrefOf: (bucket: Bucket, end: string | undefined) => string;
}) {
  const most = Math.max(1, ...series.map((each) => each.executions));
  const step = WIDTH / Math.max(1, series.length);
  const total = series.reduce((sum, each) => sum + each.executions, 0);
  const failed = series.reduce((sum, each) => sum + each.errors, 0);
  return (
    <figure aria-label={`${total} runs, ${failed} of them failed`}>
      <svg className="chart" viewBox={`0 0 ${WIDTH} ${HEIGHT + 20}`} preserveAspectRatio="none">
        <line className="axis" x1="0" x2={WIDTH} y1={HEIGHT} y2={HEIGHT} />
        {series.map((each, index) => {
          const height = (each.executions / most) * (HEIGHT - 6);
          const bad = each.executions ? Math.max(each.errors ? 2 : 0, (each.errors / most) * (HEIGHT - 6)) : 0;
          const x = index * step + GAP / 2;
          const text = `${short(each.start)}: ${each.executions} runs, ${each.errors} failed`;
          return (
            <Link key={each.start} href={hrefOf(each, series[index + 1]?.start)} aria-label={text}>
              <title>{text}</title>
              <rect className="hit" x={index * step} y="0" width={step} height={HEIGHT} />
              <rect
                className="good"
                x={x}
                y={HEIGHT - height}
                width={step - GAP}
                height={Math.max(0, height - bad)}
                rx="1.5"
              />
              <rect className="bad" x={x} y={HEIGHT - bad} width={step - GAP} height={bad} rx="1.5" />
            </Link>
          );
        })}
      </svg>
      <div className="row small dimmer">
        <span>{series[0] ? short(series[0].start) : ""}</span>
        <span className="right">now</span>
      </div>
    </figure>
  );
}
