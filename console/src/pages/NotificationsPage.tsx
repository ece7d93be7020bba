import { useState } from "react";
import {
  type Channel,
  type NewChannel,
  useChannelDeletion,
  useChannels,
  useChannelTest,
  useSavedChannel,
} from "../api/notifications";
import { useOrganisation } from "../app/organisation";
import { ActionDialog } from "../components/ActionDialog";
import { Badge, Command, Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { CheckField, NumberField, problemsOf, SelectField, TextField } from "../components/fields";
import { newSigningSecret } from "../lib/notifications";
import { visible } from "../lib/text";

export default function NotificationsPage() {
  const { canEdit } = useOrganisation();
  const channels = useChannels();
  const [making, setMaking] = useState(false);
  const items = channels.data?.items ?? [];
  return (
    <>
      <PageHead title="Notifications" sub="Who is notified about failures, and how">
        {canEdit && (
          <button type="button" className="button primary" onClick={() => setMaking(true)}>
            New channel…
          </button>
        )}
      </PageHead>
      <Failure error={channels.error} />
      <div className="card">
        {channels.isPending && <Loading what="channels" />}
        {channels.data && items.length === 0 && (
          <Empty title="No channel">
            A channel is a Slack webhook, a signed webhook or e-mail. The settings of a project select what is sent
            to it.
          </Empty>
        )}
        {items.map((each) => (
          <ChannelRow key={each.id} channel={each} />
        ))}
      </div>
      {making && <ChannelDialog onClose={() => setMaking(false)} />}
    </>
  );
}

function ChannelRow({ channel }: { channel: Channel }) {
  const { canEdit } = useOrganisation();
  const test = useChannelTest(channel.id);
  const [asking, setAsking] = useState(false);
  const [changing, setChanging] = useState(false);
  const { config } = channel;
  const where = config.url ?? (config.host ? `${config.host} → ${(config.to ?? []).join(", ")}` : undefined);
  return (
    <section className="problem" aria-label={`Channel ${channel.name}`}>
      <div className="grow stack-s">
        <div className="row wrap">
          <strong>{channel.name}</strong>
          <span className="badge plain">{channel.type}</span>
          {channel.ready === true && <Badge tone="good">ready</Badge>}
          {channel.ready === false && <Badge tone="bad">not ready</Badge>}
        </div>
        {where && <div className="dim cut">{visible(where)}</div>}
        {channel.message && <div className="dim">{visible(channel.message)}</div>}
        <div className="small dimmer">
          last delivered <Time value={channel.last_delivered_at} />
        </div>
        <Failure error={test.error} />
        {channel.test && <TestState test={channel.test} />}
      </div>
      {canEdit && (
        <div className="row">
          <button
            type="button"
            className="button small"
            disabled={test.isPending || channel.test?.state === "sending"}
            onClick={() => test.mutate()}
          >
            Send a test
          </button>
          <button type="button" className="button small" onClick={() => setChanging(true)}>
            Change…
          </button>
          <button type="button" className="button small quiet danger" onClick={() => setAsking(true)}>
            Delete…
          </button>
        </div>
      )}
      {changing && <ChannelDialog channel={channel} onClose={() => setChanging(false)} />}
      {asking && <DeleteDialog channel={channel} onClose={() => setAsking(false)} />}
    </section>
  );
}

function TestState({ test }: { test: NonNullable<Channel["test"]> }) {
  const when = <Time value={test.requested_at} />;
  if (test.state === "delivered") return <div className="note good">The test message of {when} was delivered.</div>;
  if (test.state === "failed") return <div className="note bad">The test message of {when} was not delivered.</div>;
  return <div className="note">Sending the test message…</div>;
}

function DeleteDialog({ channel, onClose }: { channel: Channel; onClose: () => void }) {
  const deletion = useChannelDeletion(channel.id);
  return (
    <ActionDialog
      title={`Delete ${channel.name}`}
      verb="Delete"
      danger
      action={deletion}
      onSubmit={() => deletion.mutate()}
      onClose={onClose}
    >
      <p>Its secret is deleted, too. You cannot delete a channel that notifications use.</p>
    </ActionDialog>
  );
}

type Security = "starttls" | "tls" | "none";

const FIELDS = {
  name: "",
  url: "",
  secret: "",
  host: "",
  from: "",
  to: "",
  username: "",
  password: "",
};

const KEPT = "Leave it empty to keep the present one";

/** What was entered; what is empty is left out. */
function given<T extends Record<string, string>>(values: T): Partial<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value)) as Partial<T>;
}

/** Makes a channel, or changes one: a secret that is left empty stays then. */
function ChannelDialog({ channel, onClose }: { channel?: Channel; onClose: () => void }) {
  const saving = useSavedChannel(channel?.id);
  const before = channel?.config;
  const [type, setType] = useState<NewChannel["type"]>(channel?.type ?? "slack");
  const [values, setValues] = useState({
    ...FIELDS,
    name: channel?.name ?? "",
    url: before?.url ?? "",
    host: before?.host ?? "",
    from: before?.from ?? "",
    to: before?.to?.join(", ") ?? "",
    username: before?.username ?? "",
  });
  const [port, setPort] = useState<number | undefined>(before?.port ?? undefined);
  const [security, setSecurity] = useState<Security>(before?.security ?? "starttls");
  const [signsIn, setSignsIn] = useState(!channel || Boolean(before?.username));
  const isSameServer =
    values.host.trim() === before?.host &&
    port === (before?.port ?? undefined) &&
    security === (before?.security ?? "starttls");
  /** Whether a secret that is not entered stays: a password goes to no other server. */
  const keeps = Boolean(channel) && (type !== "email" || (Boolean(before?.username) && isSameServer));
  const config = (): NewChannel["config"] => {
    if (type === "slack") return given({ url: values.url.trim() });
    if (type === "webhook") return { url: values.url.trim(), ...given({ secret: values.secret.trim() }) };
    return {
      host: values.host.trim(),
      from: values.from.trim(),
      to: values.to.split(/[\s,;]+/).filter(Boolean),
      security,
      ...(port === undefined ? {} : { port }),
      ...(signsIn && security !== "none"
        ? { username: values.username, ...given({ password: values.password }) }
        : {}),
    };
  };
  const submit = () => saving.mutate({ name: values.name, type, config: config() }, { close: onClose });
  const problems = problemsOf(saving.error);
  const field = (name: keyof typeof FIELDS, label: string, kind?: "password" | "url" | "email", hint?: string) => (
    <TextField
      label={label}
      kind={kind}
      required={!(keeps && kind === "password")}
      hint={keeps && kind === "password" ? KEPT : hint}
      problem={problems.get(name === "name" ? name : `config.${name}`)}
      value={values[name]}
      onChange={(value) => setValues({ ...values, [name]: value })}
    />
  );
  return (
    <ActionDialog
      title={channel ? `Change ${channel.name}` : "New channel"}
      verb={channel ? "Save" : "Create"}
      action={saving}
      onSubmit={submit}
      onClose={onClose}
    >
      <SelectField
        label="Type"
        value={type}
        disabled={Boolean(channel)}
        onChange={(value) => setType(value as NewChannel["type"])}
        options={[
          ["slack", "Slack"],
          ["webhook", "Signed webhook"],
          ["email", "E-mail"],
        ]}
      />
      {field("name", "Name")}
      {type === "slack" && field("url", "URL", "password", "The secret URL of an incoming webhook")}
      {type === "webhook" && (
        <>
          {field("url", "URL", "url")}
          {field("secret", "Signing secret", "password", "whsec_ and 24 to 64 bytes in base64")}
          <NewSecret onMade={(secret) => setValues({ ...values, secret })} />
        </>
      )}
      {type === "email" && (
        <>
          {field("host", "Mail server (SMTP)")}
          <SelectField
            label="Encryption"
            value={security}
            onChange={(value) => setSecurity(value as Security)}
            options={[
              ["starttls", "STARTTLS"],
              ["tls", "TLS"],
              ["none", "none (no password)"],
            ]}
          />
          <NumberField
            label="Port"
            required={false}
            min={1}
            max={65535}
            hint={`Default: ${{ starttls: 587, tls: 465, none: 25 }[security]}`}
            value={port}
            onChange={setPort}
          />
          {field("from", "Sender", "email")}
          {field("to", "Recipients", undefined, "At most 20 addresses, separated by commas")}
          {security !== "none" && (
            <CheckField label="The server requires a password" checked={signsIn} onChange={setSignsIn} />
          )}
          {security !== "none" && signsIn && (
            <>
              {field("username", "User name")}
              {field("password", "Password", "password")}
            </>
          )}
        </>
      )}
    </ActionDialog>
  );
}

/** Generates a signing secret, and shows it once for the receiver. */
function NewSecret({ onMade }: { onMade: (secret: string) => void }) {
  const [made, setMade] = useState("");
  const make = () => {
    const secret = newSigningSecret();
    setMade(secret);
    onMade(secret);
  };
  if (!made) {
    return (
      <div>
        <button type="button" className="button small" onClick={make}>
          Generate a secret
        </button>
      </div>
    );
  }
  return (
    <div className="stack-s">
      <span className="note warn">Copy it to the receiver now: it is not shown again.</span>
      <Command>{made}</Command>
    </div>
  );
}
