import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Integrations } from "./Integrations";

const root = document.getElementById("root");
if (root)
  createRoot(root).render(
    <StrictMode>
      <Integrations />
    </StrictMode>,
  );
