import { readFileSync } from 'node:fs';
import { ShardlabError } from '../../src/core';

/** A kernel's channels, by their names in the connection file. */
export const JUPYTER_CHANNELS = ['shell', 'control', 'stdin', 'iopub', 'hb'] as const;
export type JupyterChannel = (typeof JUPYTER_CHANNELS)[number];

/** The content of a connection file. Source: jupyter_client, connect.py */
export interface Connection {
  /** Key of the messages' signatures; '' if messages are not signed. */
  readonly key: string;
  readonly endpoints: Readonly<Record<JupyterChannel, string>>;
  /** The kernel's CurveZMQ key pair (Z85); undefined unless the client asks for encryption. */
  readonly curve: { readonly publicKey: string; readonly secretKey: string } | undefined;
}

/** Reads a connection file. Throws: CONFIG if the file cannot be used. */
export function readConnection(path: string): Connection {
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(path, 'utf8'));
  } catch (cause) {
    throw new ShardlabError('CONFIG', `cannot read the connection file ${path}: ${String(cause)}`, { cause });
  }
  return parseConnection(parsed, path);
}

/** Checks the content of a connection file. Throws: CONFIG, with the key that is wrong. */
export function parseConnection(content: unknown, path: string): Connection {
  if (typeof content !== 'object' || content === null) throw unusable(path, 'is not an object');
  const fields = new Map(Object.entries(content));
  const text = (key: string): string | undefined => {
    const value = fields.get(key);
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const scheme = text('signature_scheme') ?? 'hmac-sha256';
  if (scheme !== 'hmac-sha256')
    throw unusable(path, `asks for signatures by ${scheme}; only hmac-sha256 is known`);
  const address = (channel: JupyterChannel): string => {
    const port = fields.get(`${channel}_port`);
    if (typeof port !== 'number') throw unusable(path, `needs a number in ${channel}_port`);
    const [transport, ip] = [text('transport') ?? 'tcp', text('ip') ?? '127.0.0.1'];
    return transport === 'ipc' ? `ipc://${ip}-${port}` : `${transport}://${ip}:${port}`;
  };
  const [publicKey, secretKey] = [text('curve_publickey'), text('curve_secretkey')];
  return {
    key: text('key') ?? '',
    // The object has an address for every channel.
    endpoints: Object.fromEntries(
      JUPYTER_CHANNELS.map((channel) => [channel, address(channel)]),
    ) as Connection['endpoints'],
    curve: publicKey !== undefined && secretKey !== undefined ? { publicKey, secretKey } : undefined,
  };
}

function unusable(path: string, problem: string): ShardlabError {
  return new ShardlabError('CONFIG', `the connection file ${path} ${problem}`);
}
