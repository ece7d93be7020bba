import { useState } from "react";
import { Link, useLocation } from "wouter";
import { type ProjectTemplate, useNewProject, useProjectTemplates } from "../api/editor";
import { useOrganisation } from "../app/organisation";
import { Card, Empty, Failure, Loading, PageHead } from "../components/basics";
import { path } from "../lib/links";
import { newUlid } from "../lib/ulid";

/** What a project begins with, and its name. */
export default function NewProjectPage() {
  const { namespace, canEdit } = useOrganisation();
  const [, navigate] = useLocation();
  const templates = useProjectTemplates();
  const making = useNewProject();
  const [id] = useState(newUlid);
  const [chosen, setChosen] = useState("");
  const [name, setName] = useState<string>();
  if (!canEdit)
    return (
      <Empty title="An editor makes projects">Ask an administrator of {namespace} for the role of an editor.</Empty>
    );
  if (templates.isPending) return <Loading what="templates" />;
  if (!templates.data) return <Failure error={templates.error} />;
  const items = templates.data.items;
  const template = items.find((each) => each.key === chosen) ?? items[0];
  if (!template) return <Empty title="This installation has no templates" commands={["tieline init orders"]} />;
  const given = name ?? template.name;
  const submit = async () => {
    const made = await making.mutateAsync({ id, name: given.trim(), files: template.files }).catch(() => undefined);
    if (made)
      navigate(`${path(namespace, "projects", made, "edit")}?${new URLSearchParams({ template: template.key })}`);
  };
  return (
    <>
      <PageHead title="New project" crumbs={<Link href={path(namespace, "projects")}>Projects</Link>} />
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <fieldset className="gallery">
          <legend className="sr">What it begins with</legend>
          {items.map((each) => (
            <Choice
              key={each.key}
              template={each}
              checked={each === template}
              onChoose={() => setChosen(each.key)}
            />
          ))}
        </fieldset>
        <Card title="Name of the project">
          <div className="row wrap">
            <input
              className="input grow"
              aria-label="Name"
              required
              maxLength={100}
              autoComplete="off"
              value={given}
              onChange={(event) => setName(event.target.value)}
            />
            <button type="submit" className="button primary" disabled={making.isPending || !given.trim()}>
              {making.isPending ? "Creating…" : "Create project"}
            </button>
          </div>
          <p className="small dim">Nothing runs before you deploy it.</p>
        </Card>
        <Failure error={making.error} />
      </form>
    </>
  );
}

function Choice({
  template,
  checked,
  onChoose,
}: {
  template: ProjectTemplate;
  checked: boolean;
  onChoose: () => void;
}) {
  return (
    <label className="card choice">
      <input type="radio" name="template" checked={checked} onChange={onChoose} />
      <span className="stack-s">
        <strong>{template.name}</strong>
        <span className="dim">{template.summary}</span>
        {template.connections.length > 0 && (
          <span className="small dimmer">Needs {template.connections.map((each) => each.name).join(", ")}</span>
        )}
      </span>
    </label>
  );
}
