import { useId } from "react";
import type { CredentialPlan } from "../lib/credentials";

/** The inputs of a credential. What is typed into secret ones is stored and never shown again. */
export function CredentialFields({
  plan,
  values,
  onChange,
}: {
  plan: CredentialPlan;
  values: Record<string, string>;
  onChange: (values: Record<string, string>) => void;
}) {
  const id = useId();
  if (plan.authorise) {
    return <p className="note">You sign in to the system in a new window after this.</p>;
  }
  if (plan.fields.length === 0) return <p className="note">It needs no credential.</p>;
  return plan.fields.map((field) => {
    const shared = {
      id: `${id}-${field.name}`,
      className: "input",
      required: field.required,
      autoComplete: "off",
      spellCheck: false,
      value: values[field.name] ?? "",
      onChange: (event: { target: { value: string } }) => onChange({ ...values, [field.name]: event.target.value }),
    };
    return (
      <div key={field.name} className="field">
        <label htmlFor={shared.id}>
          {field.label}
          {!field.required && " (optional)"}
        </label>
        {field.kind === "lines" ? (
          <textarea rows={4} {...shared} />
        ) : (
          <input type={field.kind === "secret" ? "password" : "text"} {...shared} />
        )}
      </div>
    );
  });
}
