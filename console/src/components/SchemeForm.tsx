import { useState } from "react";
import { type System, useScheme, useSchemeDeletion } from "../api/systems";
import { nameOf } from "../lib/credentials";
import {
  draftId,
  draftOf,
  enteredIn,
  fieldsOf,
  newDraft,
  PRESETS,
  type SchemeDraft,
  type SchemeField,
  type SchemeType,
  schemeOf,
  TYPES,
} from "../lib/schemes";
import { newUlid } from "../lib/ulid";
import { ActionDialog } from "./ActionDialog";
import { CheckField, NumberField, SelectField, TextField } from "./fields";
import { useToast } from "./Toasts";

/** The fields of an auth scheme. */
export function SchemeFields({ draft, onChange }: { draft: SchemeDraft; onChange: (draft: SchemeDraft) => void }) {
  return (
    <>
      {!draft.stored && (
        <SelectField
          label="Way to authenticate"
          value={draft.type}
          onChange={(type) => onChange(newDraft(type as SchemeType))}
          options={TYPES}
        />
      )}
      {fieldsOf(draft).map((field) => (
        <Entry
          key={field.name}
          field={field}
          value={enteredIn(draft, field)}
          stored={draft.stored !== undefined}
          onChange={(value) => onChange({ ...draft, values: { ...draft.values, [field.name]: value } })}
        />
      ))}
      <TextField
        label="Description"
        required={false}
        hint="Distinguishes several schemes of one type"
        value={draft.description}
        onChange={(description) => onChange({ ...draft, description })}
      />
    </>
  );
}

function Entry({
  field,
  value,
  stored,
  onChange,
}: {
  field: SchemeField;
  value: string;
  stored: boolean;
  onChange: (value: string) => void;
}) {
  const { kind, label, hint } = field;
  const required = field.required === true;
  if (kind === "check") {
    return <CheckField label={label} checked={value === "true"} onChange={(on) => onChange(String(on))} />;
  }
  if (kind === "number") {
    return (
      <NumberField
        label={label}
        hint={hint}
        required={required}
        min={1}
        max={86_400}
        value={value === "" ? undefined : Number(value)}
        onChange={(number) => onChange(number === undefined ? "" : String(number))}
      />
    );
  }
  if (Array.isArray(kind)) {
    // A stored value that the form does not know is kept.
    const known = kind.includes(value) || value === "" ? kind : [...kind, value];
    return (
      <SelectField
        label={label}
        hint={hint}
        value={value || (kind[0] ?? "")}
        onChange={onChange}
        options={known.map((each: string): [string, string] => [each, each])}
      />
    );
  }
  return (
    <TextField
      label={label}
      kind={kind === "secret" ? "password" : kind === "url" ? "url" : kind === "json" ? "lines" : "text"}
      required={required}
      hint={kind === "secret" && stored ? "Leave empty to keep the stored secret" : hint}
      suggestions={field.name === "preset" ? PRESETS.filter(Boolean) : undefined}
      value={value}
      onChange={onChange}
    />
  );
}

/** Adds a way to authenticate to a system, or changes one. */
export function SchemeDialog({
  system,
  scheme,
  onClose,
}: {
  system: System;
  scheme?: System["authSchemeConfigs"][number];
  onClose: () => void;
}) {
  const change = useScheme(system.id);
  const say = useToast();
  const [draft, setDraft] = useState(() => (scheme ? draftOf(scheme) : newDraft("oauth2")));
  const [fresh] = useState(newUlid);
  const [wrong, setWrong] = useState<Error>();
  const submit = () => {
    setWrong(undefined);
    try {
      change.mutate(
        { id: draftId(draft) ?? fresh, scheme: schemeOf(draft) },
        {
          onSuccess: () => say("Saved."),
          close: onClose,
        },
      );
    } catch {
      setWrong(new Error("The claims are not valid JSON."));
    }
  };
  return (
    <ActionDialog
      title={scheme ? `Change ${nameOf(scheme)}` : "Add a way to authenticate"}
      verb="Save"
      action={{ isPending: change.isPending, error: wrong ?? change.error }}
      onSubmit={submit}
      onClose={onClose}
    >
      <SchemeFields draft={draft} onChange={setDraft} />
      {scheme && <p className="small dim">The changes apply to its connections within seconds.</p>}
    </ActionDialog>
  );
}

export function SchemeDeletionDialog({
  system,
  scheme,
  id,
  onClose,
}: {
  system: System;
  scheme: System["authSchemeConfigs"][number];
  id: string;
  onClose: () => void;
}) {
  const deletion = useSchemeDeletion(system.id);
  return (
    <ActionDialog
      title={`Delete ${nameOf(scheme)}`}
      verb="Delete"
      danger
      action={deletion}
      onSubmit={() => deletion.mutate(id, { close: onClose })}
      onClose={onClose}
    >
      <p>
        {system.name} can no longer be connected this way. Connections that use it keep their credentials and report
        the missing scheme.
      </p>
    </ActionDialog>
  );
}
