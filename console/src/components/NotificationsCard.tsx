import { useState } from "react";
import { Link } from "wouter";
import {
  type Notification,
  type NotificationEvent,
  useChannels,
  useNotificationDeletion,
  useNotifications,
  useSavedNotification,
} from "../api/notifications";
import type { Project } from "../api/projects";
import { useOrganisation } from "../app/organisation";
import { path } from "../lib/links";
import { APPROVALS, CHANGES, eventsInWords, FAILURES, INCIDENTS, ISSUES } from "../lib/notifications";
import { visible } from "../lib/text";
import { ActionDialog } from "./ActionDialog";
import { Badge, Card, Empty, Failure, Loading, Time } from "./basics";
import { CheckField, NumberField, problemsOf, SelectField, TextField } from "./fields";

/** The notifications of the environments of a project. */
export function NotificationsCard({ project }: { project: Project }) {
  const { canEdit } = useOrganisation();
  const notifications = useNotifications(project.id);
  const [making, setMaking] = useState(false);
  return (
    <Card
      title="Notifications"
      flush
      aside={
        canEdit && (
          <button type="button" className="button small primary" onClick={() => setMaking(true)}>
            New notification…
          </button>
        )
      }
    >
      <Failure error={notifications.error} />
      {notifications.isPending && <Loading what="notifications" />}
      {notifications.data?.length === 0 && (
        <Empty title="No notifications">A notification reports failures of an environment to a channel.</Empty>
      )}
      {notifications.data?.map((each) => (
        <Row key={each.id} notification={each} project={project} />
      ))}
      {making && <NotificationDialog project={project} onClose={() => setMaking(false)} />}
    </Card>
  );
}

function Row({ notification, project }: { notification: Notification; project: Project }) {
  const { canEdit, namespace } = useOrganisation();
  const deletion = useNotificationDeletion(project.id, notification.id);
  const [asking, setAsking] = useState(false);
  const [changing, setChanging] = useState(false);
  const environment = project.environments.find((each) => each.id === notification.environment_id);
  return (
    <section className="problem" aria-label={`Notification ${notification.name}`}>
      <div className="grow stack-s">
        <div className="row wrap">
          <strong>{visible(notification.name)}</strong>
          {notification.ready === false && <Badge tone="bad">not ready</Badge>}
        </div>
        <span className="dim">
          {environment?.name ?? "a deleted environment"} →{" "}
          {notification.channelName ? (
            <Link className="link" href={path(namespace, "notifications")}>
              {visible(notification.channelName)}
            </Link>
          ) : (
            "a deleted channel"
          )}
        </span>
        <span className="small dim">{eventsInWords(notification.events)}</span>
        {notification.message && <span className="dim">{visible(notification.message)}</span>}
        {notification.incidents.map((each) => (
          <span key={`${each.event}${each.subject}${each.since}`} className="note warn">
            {visible(each.message)} <Time value={each.since} />
          </span>
        ))}
      </div>
      {canEdit && (
        <div className="row">
          <button type="button" className="button small" onClick={() => setChanging(true)}>
            Change…
          </button>
          <button type="button" className="button small quiet danger" onClick={() => setAsking(true)}>
            Delete…
          </button>
        </div>
      )}
      {changing && (
        <NotificationDialog project={project} notification={notification} onClose={() => setChanging(false)} />
      )}
      {asking && (
        <ActionDialog
          title={`Delete the notification ${notification.name}`}
          verb="Delete"
          danger
          action={deletion}
          onSubmit={() => deletion.mutate()}
          onClose={() => setAsking(false)}
        >
          <p>No further messages are sent, not even when a current incident ends. The channel is kept.</p>
        </ActionDialog>
      )}
    </section>
  );
}

/** Makes a notification, or changes one. */
function NotificationDialog({
  project,
  notification,
  onClose,
}: {
  project: Project;
  notification?: Notification;
  onClose: () => void;
}) {
  const { namespace } = useOrganisation();
  const channels = useChannels();
  const saving = useSavedNotification(project.id, notification?.id);
  const [name, setName] = useState(notification?.name ?? `Failures of ${project.name}`.slice(0, 100));
  const [environment, setEnvironment] = useState(notification?.environment_id ?? project.environments[0]?.id ?? "");
  const [chosen, setChosen] = useState(notification?.channel_id ?? "");
  const [events, setEvents] = useState<NotificationEvent[]>(
    notification?.events ?? FAILURES.map(([event]) => event),
  );
  const [percent, setPercent] = useState<number | undefined>(notification?.failure_rate.percent ?? 20);
  const [least, setLeast] = useState<number | undefined>(notification?.failure_rate.minimum_runs ?? 10);
  const items = channels.data?.items ?? [];
  const channel = chosen || items[0]?.id || "";
  const problems = problemsOf(saving.error);
  const submit = () =>
    saving.mutate(
      {
        name,
        channel_id: channel,
        environment_id: environment,
        events,
        failure_rate: { percent: percent ?? 20, minimum_runs: least ?? 10 },
      },
      { close: onClose },
    );
  const check = ([event, words]: [NotificationEvent, string]) => (
    <CheckField
      key={event}
      label={words}
      checked={events.includes(event)}
      onChange={(on) => setEvents(on ? [...events, event] : events.filter((each) => each !== event))}
    />
  );
  return (
    <ActionDialog
      title={notification ? `Change ${notification.name}` : "New notification"}
      verb={notification ? "Save" : "Create"}
      action={{ isPending: saving.isPending, error: channels.error ?? saving.error }}
      disabled={!channel || events.length === 0}
      onSubmit={submit}
      onClose={onClose}
    >
      {channels.data && items.length === 0 && (
        <p className="note">
          There is no channel yet. Create one on the page{" "}
          <Link className="link" href={path(namespace, "notifications")}>
            Notifications
          </Link>
          .
        </p>
      )}
      <TextField label="Name" required value={name} problem={problems.get("name")} onChange={setName} />
      <SelectField
        label="Environment"
        value={environment}
        disabled={Boolean(notification)}
        onChange={setEnvironment}
        options={project.environments.map((each) => [each.id, each.name])}
      />
      <SelectField
        label="Channel"
        value={channel}
        onChange={setChosen}
        options={items.map((each) => [each.id, `${each.name} (${each.type})`])}
      />
      <fieldset className="group">
        <legend>Failures: notified when they start and when they end</legend>
        {INCIDENTS.map(check)}
        {events.includes("failure_rate") && (
          <div className="pair">
            <NumberField label="Failure percentage" min={1} max={100} value={percent} onChange={setPercent} />
            <NumberField
              label="Minimum runs in 15 minutes"
              min={1}
              max={100_000}
              value={least}
              onChange={setLeast}
            />
          </div>
        )}
      </fieldset>
      <fieldset className="group">
        <legend>Issues: notified once</legend>
        {ISSUES.map(check)}
      </fieldset>
      <fieldset className="group">
        <legend>Approvals: notified once, with a link to the page that takes the answer</legend>
        {APPROVALS.map(check)}
      </fieldset>
      <fieldset className="group">
        <legend>Changes: notified once</legend>
        {CHANGES.map(check)}
      </fieldset>
    </ActionDialog>
  );
}
