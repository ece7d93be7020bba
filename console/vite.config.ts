import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The API serves the files below /console/ under a strict Content-Security-Policy: nothing inline, nothing from
// elsewhere. `TIELINE_CONSOLE_API` is where `npm run dev` sends calls.
export default defineConfig({
  base: "/console/",
  plugins: [react()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 400,
  },
  server: {
    proxy: Object.fromEntries(
      ["/api", "/console/session", "/console/login"].map((path) => [
        path,
        process.env.TIELINE_CONSOLE_API ?? "http://127.0.0.1:8080",
      ]),
    ),
  },
});
