import {
  type InfiniteData,
  type UseMutationResult,
  type UseQueryOptions,
  useInfiniteQuery,
  useMutation,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { useOrganisation } from "../app/organisation";
import type { Shown } from "../lib/changes";
import { isLive, subscribeLive } from "../lib/live";
import { type Following, settle } from "../lib/settling";
import { answer, api } from "./client";
import type { paths } from "./schema";

const ROOT = "/api/v2/o/{organisation_id}";

type Method = "get" | "post" | "put" | "patch" | "delete";

/** What comes after the organisation in the paths of operations with this method. */
type Path<M extends Method> = {
  [P in keyof paths]: P extends `${typeof ROOT}${infer Rest}`
    ? paths[P] extends Record<M, object>
      ? Rest
      : never
    : never;
}[keyof paths];

type Operation<M extends Method, P extends string> = P extends string
  ? `${typeof ROOT}${P}` extends infer Whole extends keyof paths
    ? paths[Whole][M]
    : never
  : never;

type At<O> = O extends { parameters: { path: infer T } } ? Omit<T, "organisation_id"> : never;
type Query<O> = O extends { parameters: { query?: infer T } } ? T : never;
type Body<O> = O extends { requestBody?: { content: { "application/json": infer T } } } ? T : undefined;

/** What an operation answers; undefined where it answers nothing. */
type Answer<O> = O extends { responses: infer R }
  ? {
      [S in keyof R & (200 | 201 | 202 | 204)]: R[S] extends { content: { "application/json": infer T } }
        ? T
        : undefined;
    }[keyof R & (200 | 201 | 202 | 204)]
  : never;

type Where<T> = keyof T extends never ? { at?: undefined } : { at: T };
type Request<O> = Where<At<O>> & { query?: Query<O>; body?: Body<O> };

/** Parameters of a path that are not known yet: the query waits for them. */
type Asked<O> = Where<{ [K in keyof At<O>]: At<O>[K] | undefined }> & { query?: Query<O> };

type Options<T, S> = Omit<UseQueryOptions<T, Error, S>, "queryKey" | "queryFn" | "enabled" | "meta"> & {
  enabled?: boolean;
  /** What it shows, by which it is read again when that changes. */
  shown?: Shown;
};

/** How often a page polls while it receives changes: no change announces that a time passes. */
const STREAMING_MS = 120_000;
/** How often a page polls what the stream of changes does not cover, and everything without a stream. */
export const POLLING_MS = 15_000;

/** How often to poll, while the page receives changes and while it does not. */
export function usePolling({ streaming = STREAMING_MS, polling = POLLING_MS } = {}): number {
  return useSyncExternalStore(subscribeLive, isLive) ? streaming : polling;
}

/** The options of a query that is read again when what it shows changes. */
export function useLive(shown: Shown | undefined, everyMs?: number) {
  const refetchInterval = usePolling({ streaming: everyMs });
  return shown ? { meta: { shown }, refetchInterval } : {};
}

export type Send = <M extends Method, P extends Path<M>>(
  method: M,
  path: P,
  request: Request<Operation<M, P>>,
) => Promise<Answer<Operation<M, P>>>;

interface Sent {
  at?: object;
  query?: object;
  body?: unknown;
}

/** Sends a request to an operation of the organisation. Failures are an ApiError. */
export function useSend(): Send {
  const { id } = useOrganisation();
  return useMemo(() => {
    const send = (method: Method, path: string, { at, query, body }: Sent) => {
      const init = { params: { path: { organisation_id: id, ...at }, query }, body };
      return answer(api.request(method, `${ROOT}${path}` as never, init as never) as never);
    };
    return send as never as Send;
  }, [id]);
}

/** The key of a query, by which a change makes it read again. */
export function useKey() {
  const { id } = useOrganisation();
  return useCallback(
    (path: Path<"get">, at: object = {}, query?: object) =>
      query === undefined ? [path, id, at] : [path, id, at, query],
    [id],
  );
}

function isKnown(at: object | undefined): boolean {
  return Object.values(at ?? {}).every((value) => value !== undefined && value !== "");
}

/** What an operation answers. It is read once all parameters of its path are known. */
export function useGet<P extends Path<"get">, S = Answer<Operation<"get", P>>>(
  path: P,
  {
    at,
    query,
    enabled = true,
    shown,
    ...options
  }: Asked<Operation<"get", P>> & Options<Answer<Operation<"get", P>>, S>,
) {
  const send = useSend();
  const key = useKey();
  const live = useLive(shown);
  return useQuery<Answer<Operation<"get", P>>, Error, S>({
    ...live,
    ...(options as object),
    queryKey: key(path, at, query ?? {}),
    enabled: enabled && isKnown(at),
    queryFn: () => send("get", path, { at, query } as never),
  });
}

interface Page {
  next?: string | null;
}

type PageOptions<T> = {
  enabled?: boolean;
  placeholderData?: (before: InfiniteData<T> | undefined) => InfiniteData<T> | undefined;
  /** What it shows, by which its first pages are read again when that changes. */
  shown?: Shown;
  /** How often it is read again while the page receives changes, where what it shows changes with the time. */
  everyMs?: number;
};

/** Lists with more loaded pages are not refreshed: each refresh reads all of them. */
export const MOST_PAGES = 2;

/** The pages of a list, each read when it is asked for. */
export function usePages<P extends Path<"get">>(
  path: P,
  {
    at,
    query,
    enabled = true,
    shown,
    everyMs,
    ...options
  }: Asked<Operation<"get", P>> & PageOptions<Answer<Operation<"get", P>>>,
) {
  type T = Answer<Operation<"get", P>>;
  const send = useSend();
  const key = useKey();
  const { meta, refetchInterval } = useLive(shown, everyMs);
  return useInfiniteQuery<T, Error, InfiniteData<T>, readonly unknown[], string | undefined>({
    meta,
    refetchInterval: ({ state }) =>
      (state.data?.pages.length ?? 0) <= MOST_PAGES && refetchInterval !== undefined && refetchInterval,
    ...(options as object),
    queryKey: key(path, at, query ?? {}),
    enabled: enabled && isKnown(at),
    initialPageParam: undefined,
    queryFn: ({ pageParam }) => send("get", path, { at, query: { ...query, after: pageParam } } as never),
    getNextPageParam: (page) => (page as Page).next ?? undefined,
  });
}

interface Pages {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => Promise<unknown>;
}

/** Loads the next page of a list, if there is one: for the end of the list. */
export function useMore({ hasNextPage, isFetchingNextPage, fetchNextPage }: Pages): () => void {
  return useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
}

/** A query, or all queries of a path. */
type Stale = [path: Path<"get">, at?: object];

interface Change<V, T> {
  change: (send: Send, given: V) => Promise<T>;
  /** Queries to read again after a success. */
  stale?: Stale[];
  /** Queries to read again after a failure, too. */
  unsure?: Stale[];
  /** The query whose content the answer is. */
  holds?: Stale;
  /** 0 where nothing may keep what is sent and answered. */
  gcTime?: number;
}

/** A change, and the queries that it makes read again. */
export function useChange<V = void, T = unknown>({ change, stale = [], unsure = [], holds, gcTime }: Change<V, T>) {
  const send = useSend();
  const key = useKey();
  const client = useQueryClient();
  const read = (queries: Stale[]) =>
    Promise.all(queries.map((each) => client.invalidateQueries({ queryKey: key(...each) })));
  return useSettled(
    useMutation({
      ...(gcTime === undefined ? {} : { gcTime }),
      mutationFn: (given: V) => change(send, given),
      onSuccess: (answered) => {
        if (holds) client.setQueryData(key(holds[0], holds[1], {}), answered);
        return read(stale);
      },
      onSettled: () => read(unsure),
    }),
  );
}

/** A mutation whose callbacks are called although its component is gone: those of TanStack Query are dropped then. */
export function useSettled<T, V>(mutation: UseMutationResult<T, Error, V>) {
  const shown = useRef(false);
  useEffect(() => {
    shown.current = true;
    return () => {
      shown.current = false;
    };
  }, []);
  const { mutateAsync } = mutation;
  const mutate = useCallback(
    (given: V, following: Following<T> = {}) => void settle(mutateAsync(given), () => shown.current, following),
    [mutateAsync],
  );
  return { ...mutation, mutate };
}
