import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const LEAST_BYTES = 1024;

/** Writes each script and style sheet in compressed form beside it: the API sends the form that the browser takes. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    writeBundle({ dir = "" }, bundle) {
      for (const [name, file] of Object.entries(bundle)) {
        const content = Buffer.from(file.type === "chunk" ? file.code : file.source);
        if (!/\.(js|css)$/.test(name) || content.length < LEAST_BYTES) continue;
        writeFileSync(join(dir, `${name}.gz`), gzipSync(content, { level: 9 }));
        writeFileSync(join(dir, `${name}.br`), brotliCompressSync(content));
      }
    },
  };
}

// The API serves the files below /console/ under a strict Content-Security-Policy: nothing inline, nothing from
// elsewhere. `TIELINE_CONSOLE_API` is where `npm run dev` sends calls.
export default defineConfig({
  base: "/console/",
  plugins: [react(), compressed()],
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
