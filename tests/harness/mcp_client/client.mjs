// The official TypeScript client, in Node and in a browser: it signs in by discovery alone, and asks for the tools.
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

// `kept` survives a redirect; `open` leads the person to the authorisation server.
function provider({ redirectUrl, clientId, kept, open }) {
  const read = (name) => JSON.parse(kept[name] ?? "null") ?? undefined;
  const write = (name) => (value) => {
    kept[name] = JSON.stringify(value);
  };
  return {
    redirectUrl,
    clientMetadata: { client_name: "Tieline's tests", redirect_uris: [redirectUrl] },
    state: () => (kept.state = crypto.randomUUID()),
    clientInformation: () => (clientId ? { client_id: clientId } : read("client")),
    saveClientInformation: write("client"),
    tokens: () => read("tokens"),
    saveTokens: write("tokens"),
    codeVerifier: () => read("verifier"),
    saveCodeVerifier: write("verifier"),
    redirectToAuthorization: open,
    saveDiscoveryState: write("discovery"),
    discoveryState: () => read("discovery"),
  };
}

// The names of the tools and the result of one; null once the person was sent away to sign in.
export async function ask(settings) {
  const auth = provider(settings);
  const transport = () => new StreamableHTTPClientTransport(new URL(settings.url), { authProvider: auth });
  const client = new Client({ name: "tests", version: "1" });
  if (settings.code) {
    await transport().finishAuth(settings.code);
  }
  try {
    await client.connect(transport());
  } catch (error) {
    if (error instanceof UnauthorizedError && !settings.code) return null;
    throw error;
  }
  const { tools } = await client.listTools();
  const result = await client.callTool({ name: "list_connections", arguments: {} });
  await client.close();
  return { tools: tools.map((tool) => tool.name), said: JSON.parse(result.content[0].text) };
}
