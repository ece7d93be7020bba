import { Link } from "wouter";
import type { Tag } from "../lib/tags";
import { visible } from "../lib/text";

/** Tags of a run, short ones first: each leads to the runs that have it. With `most`, the number of others follows. */
export function Tags({ tags, most, hrefOf }: { tags: Tag[]; most?: number; hrefOf: (tag: Tag) => string }) {
  const shown = tags
    .map((tag) => ({ tag, text: `${tag.name}: ${visible(tag.value)}` }))
    .sort((one, other) => one.text.length - other.text.length)
    .slice(0, most ?? tags.length);
  const left = tags.length - shown.length;
  return (
    <span className={most ? "chips" : "chips wrap"}>
      {shown.map(({ tag, text }) => (
        <Link
          key={tag.name}
          className="badge plain chip"
          href={hrefOf(tag)}
          title={text}
          aria-label={`Runs with the tag ${text}`}
        >
          {text}
        </Link>
      ))}
      {left > 0 && <span className="dimmer small">+{left}</span>}
    </span>
  );
}
