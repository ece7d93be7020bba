import { useState } from "react";
import { type Channel, useChannelAction, useChannels } from "../api/notifications";
import { useOrganisation } from "../app/organisation";
import { ActionDialog } from "../components/ActionDialog";
import { Badge, Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { visible } from "../lib/text";

export default function NotificationsPage() {
  const { canEdit } = useOrganisation();
  const channels = useChannels();
  const [making, setMaking] = useState(false);
  const items = channels.data?.items ?? [];
  return (
    <>
      <PageHead title="Notifications" sub="Where people are told of what fails">
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
          <Empty title="No channel" commands={["kubectl explain notificationchannel.spec"]}>
            A channel is a Slack webhook, a signed webhook of yours, or a mail server.
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
  const action = useChannelAction();
  const [asking, setAsking] = useState(false);
  return (
    <section className="problem" aria-label={`Channel ${channel.name}`}>
      <div className="grow stack-s">
        <div className="row wrap">
          <strong>{channel.name}</strong>
          <span className="badge plain">{channel.type}</span>
          {channel.ready === true && <Badge tone="good">ready</Badge>}
          {channel.ready === false && <Badge tone="bad">not ready</Badge>}
        </div>
        <div className="dim cut">{channel.config.url ?? channel.config.host}</div>
        {channel.message && <div className="dim">{visible(channel.message)}</div>}
        <div className="small dimmer">
          last delivered <Time value={channel.lastDeliveredAt} />
        </div>
      </div>
      {canEdit && (
        <button type="button" className="button small quiet" onClick={() => setAsking(true)}>
          Delete…
        </button>
      )}
      {asking && (
        <ActionDialog
          title={`Delete ${channel.name}`}
          verb="Delete"
          danger
          action={action}
          onSubmit={() => action.mutate({ type: "delete", channel: channel.id })}
          onClose={() => setAsking(false)}
        >
          <p>Notifications that use it are not delivered any more.</p>
        </ActionDialog>
      )}
    </section>
  );
}

function ChannelDialog({ onClose }: { onClose: () => void }) {
  const action = useChannelAction();
  const [type, setType] = useState<"slack" | "webhook">("slack");
  const [values, setValues] = useState({ name: "", url: "", secret: "" });
  const submit = () => {
    const config = type === "slack" ? { url: values.url } : { url: values.url, secret: values.secret };
    action.mutate({ type: "create", channel: { name: values.name, type, config } }, { onSuccess: onClose });
  };
  const field = (name: keyof typeof values, label: string, kind = "text") => (
    <div className="field">
      <label htmlFor={`channel-${name}`}>{label}</label>
      <input
        id={`channel-${name}`}
        className="input"
        type={kind}
        autoComplete="off"
        required
        value={values[name]}
        onChange={(event) => setValues({ ...values, [name]: event.target.value })}
      />
    </div>
  );
  return (
    <ActionDialog title="New channel" verb="Create" action={action} onSubmit={submit} onClose={onClose}>
      <div className="field">
        <label htmlFor="channel-type">Type (a mail server is set up by a manifest)</label>
        <select
          id="channel-type"
          className="input"
          value={type}
          onChange={(event) => setType(event.target.value === "slack" ? "slack" : "webhook")}
        >
          <option value="slack">Slack</option>
          <option value="webhook">Signed webhook</option>
        </select>
      </div>
      {field("name", "Name")}
      {field("url", "URL", type === "slack" ? "password" : "url")}
      {type === "webhook" && field("secret", "Signing secret: whsec_ and at least 24 bytes in base64", "password")}
    </ActionDialog>
  );
}
