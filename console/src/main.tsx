import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError } from "./api/client";
import { App } from "./app/App";
import { applyTheme } from "./app/theme";
import { Boundary } from "./components/Boundary";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/components.css";

applyTheme();
const client = new QueryClient({
  defaultOptions: {
    queries: {
      // What the API refuses, it refuses again: only failures of reaching it are tried anew, later each time.
      retry: (count, error) =>
        count < 3 && (!(error instanceof ApiError) || error.status === 0 || error.status >= 500),
      retryDelay: (count) => Math.min(1000 * 2 ** count, 15_000),
      staleTime: 2_000,
      // A browser may take a network for none, or the other way: what does not answer is asked again.
      networkMode: "always",
    },
  },
});
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <Boundary at="">
          <App />
        </Boundary>
      </QueryClientProvider>
    </StrictMode>,
  );
}
