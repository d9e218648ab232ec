/* SPDX-License-Identifier: Apache-2.0 */
/* wrapper.cpp: holdfast.hpp keeps its word: who owns, what is thrown, what a scope's end does. Each
 * case has a store of its own, with two clients: one that holds, and one that wants. */
#include <holdfast/holdfast.hpp>

#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<holdfast::lock>);
static_assert(!std::is_copy_assignable_v<holdfast::lock>);
static_assert(std::is_nothrow_move_constructible_v<holdfast::lock>);
static_assert(std::is_nothrow_move_assignable_v<holdfast::lock>);
static_assert(!std::is_copy_constructible_v<holdfast::client>);
static_assert(std::is_nothrow_move_constructible_v<holdfast::client>);
static_assert(std::is_nothrow_copy_constructible_v<holdfast::error>);

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #claim);                        \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

/* The code of the error that the body throws; HF_OK when it throws none. */
template <typename Body> static hf_code thrown(Body body)
{
    try {
        body();
    } catch (const holdfast::error &err) {
        CHECK(err.get().code == err.code());
        CHECK(std::string(err.what()) == err.get().text && !std::string(err.what()).empty());
        CHECK(err.is_retryable() == hf_code_retryable(err.code()));
        return err.code();
    }
    return HF_OK;
}

struct pair {
    holdfast::client holder, other;

    explicit pair(const char *store) : holder(store), other(store)
    {
    }

    bool is_free()
    {
        return other.try_acquire("x").has_value();
    }

    /* As is_free(), but a release in the background has time to arrive. */
    bool becomes_free()
    {
        return other.try_acquire_for("x", 10s).has_value();
    }
};

static void a_scope_releases()
{
    pair both("memory:scope");
    {
        holdfast::lock lock = both.holder.acquire("x");
        CHECK(lock.is_held() && lock.token() > 0 && lock.name() == "x");
        CHECK(lock.check().count() > 0);
        CHECK(lock.mode() == HF_EXCLUSIVE && lock.fd() >= 0);
        CHECK(!both.is_free());
    }
    CHECK(both.becomes_free());
}

static void an_exception_releases()
{
    pair both("memory:exception");
    hf_code code = thrown([&] {
        holdfast::lock lock = both.holder.acquire("x");
        both.holder.acquire(""); // no name
    });
    CHECK(code == HF_INVALID);
    CHECK(both.becomes_free());
}

static void a_lock_moves()
{
    pair both("memory:moves");
    std::optional<holdfast::lock> kept;
    {
        holdfast::lock lock = both.holder.acquire("x");
        kept = std::move(lock);
        CHECK(lock.get() == nullptr && !lock.is_held());
    }
    CHECK(kept->is_held() && !both.is_free());
    *kept = both.holder.acquire("y"); // what it had is released
    CHECK(kept->name() == "y" && both.becomes_free());
}

static void a_release_is_seen()
{
    pair both("memory:release");
    holdfast::lock lock = both.holder.acquire("x");
    int64_t token = lock.token();
    lock.set_exit_status(7);
    lock.release();
    CHECK(!lock.is_held() && lock.token() == token);
    CHECK(thrown([&] { lock.check(); }) == HF_LOST);
    CHECK(thrown([&] { lock.feed(); }) == HF_LOST);
    std::optional<holdfast::lock> next = both.other.try_acquire("x");
    CHECK(next && next->token() > token && !next->has_run());
    hf_last last = next->previous();
    CHECK(last.outcome == HF_OUTCOME_RELEASED && last.has_exit_status && last.exit_status == 7);
}

static void what_is_not_had_is_thrown()
{
    pair both("memory:thrown");
    holdfast::lock lock = both.holder.acquire("x");
    CHECK(thrown([&] { both.other.acquire("x", holdfast::lock_options().wait(1ms)); }) ==
          HF_TIMEOUT);
    CHECK(!both.other.try_acquire_for("x", 1ms));
    CHECK(thrown([&] { both.other.try_acquire(""); }) == HF_INVALID);
    CHECK(thrown([] { holdfast::client nowhere("nothing:"); }) == HF_INVALID);
    holdfast::cancel cancel;
    hf_lock_options patient{};
    patient.cancel = cancel.get();
    cancel.fire();
    CHECK(thrown([&] { both.other.acquire("x", patient); }) == HF_CANCELLED);
}

static void readers_share()
{
    pair both("memory:readers");
    hf_lock_options shared{};
    shared.mode = HF_SHARED;
    holdfast::lock lock = both.holder.acquire("x");
    lock.downgrade();
    CHECK(lock.mode() == HF_SHARED);
    std::optional<holdfast::lock> reader = both.other.try_acquire("x", shared);
    CHECK(reader && !lock.try_upgrade());
    reader->release();
    CHECK(lock.try_upgrade() && lock.mode() == HF_EXCLUSIVE);
    lock.release();
    CHECK(thrown([&] { lock.try_upgrade(); }) == HF_LOST);
}

static void several_or_none()
{
    pair both("memory:several");
    std::vector<holdfast::lock> locks = both.holder.acquire_all({"z", "x"});
    CHECK(locks.size() == 2 && locks[0].name() == "z" && locks[1].name() == "x");
    CHECK(locks[0].is_held() && locks[1].is_held() && !both.is_free());
    hf_lock_options at_once{};
    at_once.wait_ms = HF_TRY;
    CHECK(thrown([&] { both.other.acquire_all({"a", "z"}, at_once); }) == HF_HELD);
    CHECK(thrown([&] { both.other.acquire_all({"a", "a"}); }) == HF_INVALID);
    locks.clear();
    CHECK(both.becomes_free());
}

static void a_lock_outlives_its_client()
{
    std::optional<holdfast::client> client("memory:outlives");
    holdfast::lock lock = client->acquire("x");
    client.reset();
    CHECK(!lock.is_held());
}

static void times_have_units()
{
    holdfast::options client = holdfast::options().ttl(20s).stop_margin(1s).patience(3s);
    CHECK(client.ttl_ms == 20000 && client.stop_margin_ms == 1000 && client.patience_ms == 3000);
    holdfast::lock_options lock = holdfast::lock_options().wait(2min).linger(1s).feed_within(5ms);
    CHECK(lock.wait_ms == 120000 && lock.linger_ms == 1000 && lock.feed_ms == 5);
    lock.max_hold(1h).period(24h).wait(0s);
    CHECK(lock.max_hold_ms == 3600000 && lock.period_ms == 86400000 && lock.wait_ms == HF_TRY);
    CHECK(lock.struct_size == sizeof(hf_lock_options));
}

static void a_lease_is_held_by_its_id()
{
    pair both("memory:lease");
    std::string id;
    {
        holdfast::lease lease =
            both.holder.acquire_lease("x", holdfast::lease_options().ttl(20s).wait(1s));
        CHECK(lease.ttl() == 20s && lease.left() > 0s && lease.left() <= 20s && lease.token() > 0);
        id = lease.id();
    }
    CHECK(!both.is_free());
    holdfast::lease same = both.other.renew_lease(id);
    same.renew();
    CHECK(same.id() == id && same.left() > 0s);
    same.release();
    CHECK(both.is_free() && thrown([&] { same.renew(); }) == HF_LOST);
    both.other.release_lease(id); // once more does no harm
    CHECK(thrown([&] { both.other.renew_lease("no id"); }) == HF_INVALID);
}

static void one_leads()
{
    pair both("memory:election");
    holdfast::election one(both.holder, "x"), other(both.other, "x");
    CHECK(!one.is_leader() && thrown([&] { one.check(); }) == HF_LOST);
    one.campaign();
    CHECK(one.is_leader() && one.check() > 0s && one.token() > 0);
    CHECK(!other.campaign_for(0s) && !other.campaign_for(1ms) && !other.is_leader());
    one.resign();
    CHECK(other.campaign_for(10s) && other.token() > one.token() && !one.is_leader());
    int64_t seen = 0;
    CHECK(both.holder.observe("x", [&](const hf_leader *leader) {
        seen = leader ? leader->token : 0;
        return !leader;
    }));
    CHECK(seen == other.token());
    bool has_come_through = false;
    try {
        both.holder.observe("x", [](const hf_leader *) -> bool { throw 7; });
    } catch (int number) {
        has_come_through = number == 7;
    }
    CHECK(has_come_through);
    holdfast::cancel end;
    end.fire();
    CHECK(!both.holder.observe(
        "x", [](const hf_leader *) { return true; }, &end));
}

int main()
{
    times_have_units();
    a_lease_is_held_by_its_id();
    one_leads();
    a_scope_releases();
    an_exception_releases();
    a_lock_moves();
    a_release_is_seen();
    what_is_not_had_is_thrown();
    readers_share();
    several_or_none();
    a_lock_outlives_its_client();
    std::puts("all as holdfast.hpp says");
    return 0;
}
