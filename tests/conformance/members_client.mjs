const [kind, where, ...command] = process.argv.slice(2);
if (kind === "a2a") {
  const { ClientFactory } = await import("@a2a-js/sdk/client");
  const client = await new ClientFactory().createFromUrl(where);
  const message = { messageId: "1", role: 1, parts: [{ content: { $case: "text", value: "2 + 2" } }] };
  console.log(JSON.stringify(await client.sendMessage({ tenant: "", message, configuration: undefined, metadata: undefined })));
} else {
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const there = kind === "http" ? new StreamableHTTPClientTransport(new URL(where)) : new StdioClientTransport({ command: where, args: command, env: { ...process.env } });
  const client = new Client({ name: "test", version: "1" });
  await client.connect(there);
  const { tools } = await client.listTools();
  const answer = await client.callTool({ name: tools[0].name, arguments: { question: "2 + 2" } });
  console.log(JSON.stringify({ tools, answer }));
  await client.close();
}
