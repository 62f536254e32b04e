import { createServer } from 'node:net';

/** The first port from `wanted` upwards on which `host` can listen; undefined when 50 in a row are taken. */
export async function freePort(wanted, host) {
  for (let port = wanted; port < wanted + 50 && port < 65536; port++) {
    if (await canListen(port, host)) return port;
  }
  return undefined;
}

function canListen(port, host) {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error) => {
      if (error.code === 'EADDRINUSE' || error.code === 'EACCES') resolve(false);
      else reject(error);
    });
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
