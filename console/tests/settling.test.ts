import { MutationObserver, QueryClient } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";
import { settle } from "../src/lib/settling";

/** A component with a change: sent while it is shown, and answered after it is gone, or not. */
function component() {
  const request = { resolve: (_: string) => {}, reject: (_: Error) => {} };
  const pending = new Promise<string>((resolve, reject) => Object.assign(request, { resolve, reject }));
  const observer = new MutationObserver(new QueryClient(), { mutationFn: () => pending });
  let shown = true;
  const unsubscribe = observer.subscribe(() => {});
  const calls = { onSuccess: vi.fn(), onError: vi.fn(), close: vi.fn() };
  const done = settle(observer.mutate(), () => shown, calls);
  return {
    ...calls,
    unmount: () => {
      shown = false;
      unsubscribe();
    },
    answered: async () => {
      request.resolve("done");
      await done;
    },
    refused: async () => {
      request.reject(new Error("refused"));
      await done;
    },
  };
}

test("a change is confirmed, and its dialog closed", async () => {
  const { answered, ...calls } = component();
  await answered();
  expect(calls.onSuccess.mock.calls).toEqual([["done"]]);
  expect(calls.close).toHaveBeenCalledOnce();
  expect(calls.onError).not.toHaveBeenCalled();
});

test("a change is confirmed after its row is gone, and closes no other dialog", async () => {
  const { answered, unmount, ...calls } = component();
  unmount();
  await answered();
  expect(calls.onSuccess.mock.calls).toEqual([["done"]]);
  expect(calls.close).not.toHaveBeenCalled();
});

test("a refusal is shown after the row is gone", async () => {
  const { refused, unmount, ...calls } = component();
  unmount();
  await refused();
  expect(calls.onError.mock.calls).toEqual([[new Error("refused")]]);
  expect(calls.onSuccess).not.toHaveBeenCalled();
  expect(calls.close).not.toHaveBeenCalled();
});
