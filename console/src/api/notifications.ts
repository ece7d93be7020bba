import type { Schemas } from "./client";
import { useChange, useGet, usePolling } from "./queries";

export type Channel = Schemas["NotificationChannel"];
export type NewChannel = Schemas["NotificationChannelCreate"];
export type Notification = Schemas["Notification"];
export type NotificationEvent = Schemas["NotificationEvent"];

const PAGE = 200;
const CHANNELS = "/notification_channels";
const NOTIFICATIONS = "/projects/{project_id}/notifications";
const SENDING_MS = 1_000;

/** The channels; polled often while a test message is sent. */
export function useChannels() {
  const polling = usePolling();
  return useGet(CHANNELS, {
    query: { first: PAGE },
    shown: { kinds: ["notificationChannel", "notification"] },
    refetchInterval: (query) =>
      query.state.data?.items.some((each) => each.test?.state === "sending") ? SENDING_MS : polling,
  });
}

/** Makes a channel, or changes the one with this id. */
export function useSavedChannel(channel: string | undefined) {
  return useChange({
    gcTime: 0,
    change: (send, body: NewChannel) =>
      channel
        ? send("patch", "/notification_channels/{channel_id}", {
            at: { channel_id: channel },
            body: { name: body.name, config: body.config },
          })
        : send("post", CHANNELS, { body }),
    stale: [[CHANNELS]],
  });
}

export function useChannelDeletion(channel: string) {
  return useChange({
    change: (send) => send("delete", "/notification_channels/{channel_id}", { at: { channel_id: channel } }),
    stale: [[CHANNELS]],
  });
}

export function useChannelTest(channel: string) {
  return useChange({
    change: (send) => send("post", "/notification_channels/{channel_id}/test", { at: { channel_id: channel } }),
    unsure: [[CHANNELS]],
  });
}

/** The notifications of the environments of a project. */
export function useNotifications(project: string) {
  return useGet(NOTIFICATIONS, {
    at: { project_id: project },
    query: { first: PAGE },
    select: (found) => found.items,
    shown: { kinds: ["notification", "notificationChannel"] },
  });
}

/** Makes a notification, or changes the one with this id. */
export function useSavedNotification(project: string, notification: string | undefined) {
  const at = { project_id: project };
  return useChange({
    change: (send, body: Schemas["NotificationCreate"]) =>
      notification
        ? send("patch", "/projects/{project_id}/notifications/{notification_id}", {
            at: { ...at, notification_id: notification },
            body: {
              name: body.name,
              channel_id: body.channel_id,
              events: body.events,
              failure_rate: body.failure_rate,
            },
          })
        : send("post", NOTIFICATIONS, { at, body }),
    stale: [[NOTIFICATIONS, at]],
  });
}

export function useNotificationDeletion(project: string, notification: string) {
  const at = { project_id: project };
  return useChange({
    change: (send) =>
      send("delete", "/projects/{project_id}/notifications/{notification_id}", {
        at: { ...at, notification_id: notification },
      }),
    stale: [[NOTIFICATIONS, at]],
  });
}
