import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The example of a product that embeds the connect page (connect/example), with React of this folder.
const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  root: here("../connect/example"),
  plugins: [react()],
  resolve: {
    alias: {
      "@tieline/connect": here("../connect/src/index.ts"),
      "react-dom": here("./node_modules/react-dom"),
      react: here("./node_modules/react"),
    },
  },
  build: { outDir: here("../connect/example/dist"), emptyOutDir: true, target: "es2022", assetsInlineLimit: 0 },
});
