import { createServer } from 'node:net';

/** Returns the first port from `wanted` on at which `host` can listen; undefined if 50 consecutive ports are in use. */
export async function freePort(wanted: number, host: string): Promise<number | undefined> {
  for (let port = wanted; port < wanted + 50 && port < 65536; port++) {
    if (await canListen(port, host)) return port;
  }
  return undefined;
}

function canListen(port: number, host: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE' || error.code === 'EACCES') resolve(false);
      else reject(error);
    });
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
