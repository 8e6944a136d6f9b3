// An identity provider on loopback for the tests: any name signs in; its groups come from the file
// GROUPS, a JSON object of lists by name. A sign-in as `2/ana` is another user with the name `ana`. It
// prints its address when it is ready.
import { readFileSync } from 'node:fs';
import { Provider } from 'oidc-provider';

const groups = (name) => JSON.parse(readFileSync(process.env.GROUPS))[name] ?? [];
const client = {
  client_id: 'gpool',
  client_secret: 'secret-of-gpool',
  redirect_uris: JSON.parse(process.env.REDIRECTS),
  grant_types: ['authorization_code', 'urn:ietf:params:oauth:grant-type:device_code'],
  response_types: ['code'],
};
const configuration = {
  clients: [client],
  claims: { openid: ['sub'], profile: ['preferred_username'], groups: ['groups'] },
  scopes: ['openid', 'profile', 'groups'],
  features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true } },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => {
      const name = id.split('/').pop();
      return { sub: id, preferred_username: name, groups: groups(name) };
    },
  }),
};
// The port is known only once the server listens, and the issuer contains it.
const { createServer } = await import('node:http');
const server = createServer();
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  server.on('request', new Provider(issuer, configuration).callback());
  console.log(issuer);
});
