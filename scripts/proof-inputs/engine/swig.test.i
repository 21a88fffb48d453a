// SPDX-License-Identifier: MIT OR Apache-2.0
%module store
%feature("docstring") Store::find "Looks for a key.";
#define LIMIT 64
#define NAME "store"
%constant double RATIO = 1.5 * 3;
namespace data {
    typedef unsigned long long key_t;
    class Node { public: Node(key_t key, Node *parent = 0); key_t key() const; Node *parent() const; private: Node(const Node &); };
    union Cell { int number; float part; char text[16]; };
    struct Options { bool sorted : 1; unsigned depth; int (*compare)(const Node *, const Node *); Cell cell; };
}
class Listener { public: virtual ~Listener() {} virtual void changed(data::key_t key, const char *what) {} virtual bool wants(int kind) const { return true; } protected: virtual int inner(int a); };
class Store {
public:
    enum Mode { Read = 1 << 0, Write = 1 << 1, Both = Read | Write };
    Store(Mode mode = Both, const data::Options *options = nullptr);
    ~Store();
    bool find(data::key_t key, int *found) const throw(int);
    void weigh(double &weight) const;
    void put(const char *bytes, int length);
    void listen(Listener *listener);
    Store &operator=(const Store &other);
    bool operator==(const Store &other) const;
    Store &operator<<(int value);
    friend int peek(const Store &store);
    class Walker { public: int next(); };
    template <typename K> K convert(K value) const { return value; }
    %template(convertInt) convert<int>;
    static const int limit = LIMIT;
    const char *const label;
};
%inline %{ static int twice(int number) { return 2 * number; } %}
%pythoncode %{ def helper(): return NAME %}
extern "C" { int plain(int count, char **words); void fill(int values[4], ...); }
