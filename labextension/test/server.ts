import { ServerConnection } from '@jupyterlab/services';

/**
 * A server that is a function.
 */
export interface IFakeServer {
  readonly settings: ServerConnection.ISettings;

  /**
   * What it was asked, in order.
   */
  readonly requests: Request[];
}

/**
 * Make a server out of a function from request to answer.
 */
export function serverThat(
  answer: (request: Request) => Response | Promise<Response>
): IFakeServer {
  const requests: Request[] = [];
  const settings = ServerConnection.makeSettings({
    baseUrl: 'http://localhost/base/',
    fetch: async (input: RequestInfo | URL) => {
      const request = input as Request;
      requests.push(request);
      return await answer(request);
    }
  });
  return { settings, requests };
}
