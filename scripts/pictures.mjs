import { main } from './lib/pictures/main.mjs';

await main();
