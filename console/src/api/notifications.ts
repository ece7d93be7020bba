import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useOrganisation } from "../app/organisation";
import { answer, api, type Schemas } from "./client";

export type Channel = Schemas["NotificationChannel"];
export type NewChannel = Schemas["NotificationChannelCreate"];

const PAGE = 200;

export function useChannels() {
  const { id } = useOrganisation();
  return useQuery({
    queryKey: ["channels", id],
    queryFn: () =>
      answer(
        api.GET("/api/v2/o/{organisation_id}/notification_channels", {
          params: { path: { organisation_id: id }, query: { first: PAGE } },
        }),
      ),
    refetchInterval: 10_000,
  });
}

export function useChannelAction() {
  const { id } = useOrganisation();
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (
      action: { type: "create"; channel: NewChannel } | { type: "delete"; channel: string },
    ): Promise<void> => {
      if (action.type === "create") {
        await answer(
          api.POST("/api/v2/o/{organisation_id}/notification_channels", {
            params: { path: { organisation_id: id } },
            body: action.channel,
          }),
        );
      } else {
        await answer(
          api.DELETE("/api/v2/o/{organisation_id}/notification_channels/{channel_id}", {
            params: { path: { organisation_id: id, channel_id: action.channel } },
          }),
        );
      }
    },
    onSuccess: () => client.invalidateQueries({ queryKey: ["channels", id] }),
  });
}
